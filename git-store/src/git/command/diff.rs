//! Diffs: their text, patches for mail, and the output of which `repo::read::diff` makes data.
//!
//! The text is that of a plain `git diff`. Attributes in trees do not count, as in any bare
//! repository: otherwise a file could turn itself into a binary one, or choose what the header of a
//! hunk shows. git 2.43 to 2.45 would read those of `HEAD`.

use std::{path::Path, process::Stdio, time::Duration};

use ferrite_proto::git;
use git2::Oid;
use tokio::process::Command;

use super::{
    Git, GitChild,
    child::limit_allocations,
    option,
    pack::{listed, listed_objects},
};
use crate::types::error::GitError;

/// The tree without entries, which every repository has.
const EMPTY_TREE: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

/// The defaults of git, except for attributes. Beyond 1,000 added or deleted files git only finds
/// renames without changes.
const SETTINGS: &[&str] = &[
    "attr.tree=4b825dc642cb6eb9a060e54bf8d69288fbee4904",
    "core.attributesFile=/dev/null",
    "diff.renameLimit=1000",
    "diff.renames=true",
];
/// Programs that a configuration could name to make the text.
const NO_PROGRAMS: [&str; 2] = ["--no-ext-diff", "--no-textconv"];

/// CPU time of a diff. Comparing two files is quadratic at worst.
const DIFF_CPU: Duration = Duration::from_secs(60);
/// Memory that a diff may allocate, in bytes. Two files of 32 MiB need less, unless most of their
/// lines are a few bytes long.
const MAX_ALLOCATED_BYTES: u64 = 1 << 30;

/// The old side of a diff.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiffBase {
    /// Nothing: every file is new.
    Empty,
    /// A commit.
    Commit(Oid),
    /// The merge base of a commit and the new side. With several, git's first.
    MergeBase(Oid),
}

/// How changes of whitespace count. A file that has no others is not in a diff, unless its path or
/// mode differs too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Whitespace {
    /// As others.
    #[default]
    ShowAll,
    /// Not at all.
    IgnoreAll,
    /// Only where there was none or is none now, and not at the end of lines.
    IgnoreChange,
    /// Not at the end of lines, such as carriage returns.
    IgnoreEol,
}

impl From<git::Whitespace> for Whitespace {
    fn from(mode: git::Whitespace) -> Self {
        match mode {
            git::Whitespace::Unspecified | git::Whitespace::ShowAll => Self::ShowAll,
            git::Whitespace::IgnoreAll => Self::IgnoreAll,
            git::Whitespace::IgnoreChange => Self::IgnoreChange,
            git::Whitespace::IgnoreEol => Self::IgnoreEol,
        }
    }
}

impl Whitespace {
    fn flag(self) -> Option<&'static str> {
        match self {
            Self::ShowAll => None,
            Self::IgnoreAll => Some("--ignore-all-space"),
            Self::IgnoreChange => Some("--ignore-space-change"),
            Self::IgnoreEol => Some("--ignore-space-at-eol"),
        }
    }
}

/// What `diff-tree` prints of each change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiffOutput {
    /// Paths, modes and ids.
    Files,
    /// In addition the numbers of changed lines.
    LineCounts,
    /// In addition the lines. For a single diff.
    Lines,
}

impl Git {
    /// Starts `diff`, which writes a diff to its standard output. With `has_binaries`, the content of
    /// binary files is in it, as in patches.
    pub fn diff(
        &self,
        repository: &Path,
        base: DiffBase,
        head: Oid,
        has_binaries: bool,
        whitespace: Whitespace,
    ) -> Result<GitChild, GitError> {
        let mut command = self.diff_command(repository);
        command.arg("diff").args(NO_PROGRAMS).arg("--no-color").args(whitespace.flag());
        if has_binaries {
            command.arg("--binary");
        }
        match base {
            DiffBase::Empty => command.arg(EMPTY_TREE).arg(head.to_string()),
            DiffBase::Commit(base) => command.arg(base.to_string()).arg(head.to_string()),
            DiffBase::MergeBase(base) => command.arg(format!("{base}...{head}")),
        };
        self.spawn_diff("diff", command.arg("--").stdin(Stdio::null()))
    }

    /// Starts `format-patch`, which writes the commits that `head` has and `base` has not as mails
    /// to its standard output, oldest first and without merges. The version of git is not in them.
    pub fn format_patch(&self, repository: &Path, base: DiffBase, head: Oid) -> Result<GitChild, GitError> {
        let mut command = self.diff_command(repository);
        command.arg("format-patch").args(NO_PROGRAMS).args(["--stdout", "--no-signature"]);
        match base {
            DiffBase::Empty => command.arg("--root").arg(head.to_string()),
            DiffBase::Commit(base) | DiffBase::MergeBase(base) => command.arg(format!("{base}..{head}")),
        };
        self.spawn_diff("format-patch", command.arg("--").stdin(Stdio::null()))
    }

    /// Starts `diff-tree`, which reads lines `<commit> <parent>` from its standard input, and lines
    /// `<commit>` of commits without parents. Of each it prints the id and the changes.
    pub fn diff_tree(
        &self,
        repository: &Path,
        output: DiffOutput,
        whitespace: Whitespace,
    ) -> Result<GitChild, GitError> {
        let mut command = self.diff_command(repository);
        command.arg("diff-tree").args(NO_PROGRAMS).args(whitespace.flag());
        command.args(["--stdin", "--always", "--root", "-r", "-M", "-z", "--no-abbrev", "--raw"]);
        match output {
            DiffOutput::Files => {}
            DiffOutput::LineCounts => drop(command.arg("--numstat")),
            DiffOutput::Lines => drop(command.args(["--numstat", "--patch"])),
        }
        self.spawn_diff("diff-tree", &mut command)
    }

    /// Starts `diff-tree`, which reads a pair of trees from its standard input and compares their
    /// files under the same names, with `context` lines around the changes. The trees may be in the
    /// object folder `scratch`.
    pub fn compare_trees(&self, repository: &Path, scratch: &Path, context: u32) -> Result<GitChild, GitError> {
        let mut command = self.diff_command(repository);
        command.env("GIT_OBJECT_DIRECTORY", scratch);
        command.env("GIT_ALTERNATE_OBJECT_DIRECTORIES", listed(&repository.join("objects")));
        command.arg("diff-tree").args(NO_PROGRAMS);
        command.args(["--stdin", "--no-color", "--no-renames", "--patch"]).arg(format!("--unified={context}"));
        self.spawn_diff("diff-tree", &mut command)
    }

    /// Starts `merge-base`, which prints one id, or none and fails with status 1.
    pub fn merge_base(&self, repository: &Path, one: Oid, other: Oid) -> Result<GitChild, GitError> {
        let mut command = self.command(repository);
        command.arg(option("--git-dir", repository)).arg("merge-base").arg(one.to_string()).arg(other.to_string());
        self.spawn_with("merge-base", command.stdin(Stdio::null()), DIFF_CPU)
    }

    /// Starts `merge-base` as [`Git::merge_base`] does. Objects of the commits may also be in the
    /// repository `other_store`.
    pub fn merge_base_across(
        &self,
        repository: &Path,
        other_store: &Path,
        (one, other): (Oid, Oid),
    ) -> Result<GitChild, GitError> {
        let mut command = self.command(repository);
        command.env("GIT_ALTERNATE_OBJECT_DIRECTORIES", listed_objects(&[other_store]));
        command.arg(option("--git-dir", repository)).arg("merge-base").arg(one.to_string()).arg(other.to_string());
        self.spawn_with("merge-base", command.stdin(Stdio::null()), DIFF_CPU)
    }

    /// Starts `rev-list`, which prints the number of commits reachable from those on its standard
    /// input.
    pub fn count_commits(&self, repository: &Path) -> Result<GitChild, GitError> {
        let mut command = self.command(repository);
        command.arg(option("--git-dir", repository)).args(["rev-list", "--count", "--stdin"]);
        self.spawn_with("rev-list", &mut command, DIFF_CPU)
    }

    pub(super) fn diff_command(&self, repository: &Path) -> Command {
        let mut command = self.command(repository);
        for setting in SETTINGS {
            command.args(["-c", setting]);
        }
        command.arg(option("--git-dir", repository));
        command
    }

    pub(super) fn spawn_diff(&self, name: &'static str, command: &mut Command) -> Result<GitChild, GitError> {
        let child = self.spawn_with(name, command, DIFF_CPU)?;
        if let Some(process) = &child.child {
            limit_allocations(process, MAX_ALLOCATED_BYTES);
        }
        Ok(child)
    }
}
