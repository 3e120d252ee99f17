//! Merges, and the lists and comparisons around them.
//!
//! Attributes in trees do not count, as in diffs: otherwise a file could choose how it is merged,
//! and the result would depend on the version of git. No setting of a repository changes a result.

use std::{path::Path, process::Stdio, time::Duration};

use git2::Oid;
use tokio::process::Command;

use super::{Git, GitChild, child::limit_allocations, option, pack::listed};
use crate::types::error::GitError;

/// The defaults of git, except for attributes.
const SETTINGS: &[&str] = &[
    "attr.tree=4b825dc642cb6eb9a060e54bf8d69288fbee4904",
    "core.attributesFile=/dev/null",
    // New objects go to a scratch folder. Those that are kept are written and synced again.
    "core.fsync=none",
    "diff.algorithm=histogram",
    "merge.conflictStyle=merge",
    "merge.directoryRenames=conflict",
    "merge.renameLimit=7000",
    "merge.renames=true",
    "merge.renormalize=false",
];

/// CPU time of one process. Finding renames and comparing files is quadratic at worst.
const MERGE_CPU: Duration = Duration::from_secs(60);
/// Memory that one process may allocate, in bytes.
pub const MAX_MERGE_MEMORY_BYTES: u64 = 1 << 30;

/// Which commits a list has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitsToList {
    /// All that only the head has.
    All,
    /// As `git rebase` lists them: `=` is before those whose change the base has as another commit,
    /// and `+` before all others.
    ToRebase,
}

impl Git {
    /// Starts `merge-tree`, which merges `theirs` into `ours` and prints the tree, conflicts and
    /// messages. Its exit status is 1 if there are conflicts. It writes objects to the folder `scratch` only.
    pub fn merge_tree(&self, repository: &Path, scratch: &Path, ours: Oid, theirs: Oid) -> Result<GitChild, GitError> {
        let mut command = self.merge_command(repository, Some(scratch));
        command.args(["merge-tree", "--write-tree", "-z", "--messages"]).arg(ours.to_string()).arg(theirs.to_string());
        self.spawn_merge("merge-tree", command.stdin(Stdio::null()))
    }

    /// Starts `rev-list`, which prints the commits that `head` has and `base` has not, oldest first
    /// and without merges: the newest `count` of them.
    pub fn list_commits(
        &self,
        repository: &Path,
        base: Oid,
        head: Oid,
        list: CommitsToList,
        count: usize,
    ) -> Result<GitChild, GitError> {
        let mut command = self.merge_command(repository, None);
        command.args(["rev-list", "--reverse", "--topo-order", "--no-merges"]).arg(format!("--max-count={count}"));
        match list {
            CommitsToList::All => command.arg(format!("{base}..{head}")),
            CommitsToList::ToRebase => command.args(["--right-only", "--cherry-mark"]).arg(format!("{base}...{head}")),
        };
        self.spawn_merge("rev-list", command.stdin(Stdio::null()))
    }

    /// Starts `diff-tree`, which reads pairs of trees from its standard input, one per line, and
    /// compares their files as a merge does. It prints no lines around the changes. The objects may
    /// be in `scratch`.
    pub fn compare_for_merge(&self, repository: &Path, scratch: &Path) -> Result<GitChild, GitError> {
        let mut command = self.merge_command(repository, Some(scratch));
        command.args(["diff-tree", "--stdin", "--no-ext-diff", "--no-textconv", "--no-color", "--no-renames"]);
        command.args(["--text", "--patch", "--unified=0", "--no-indent-heuristic", "--diff-algorithm=histogram"]);
        self.spawn_merge("diff-tree", &mut command)
    }

    fn merge_command(&self, repository: &Path, scratch: Option<&Path>) -> Command {
        let mut command = self.command(repository);
        for setting in SETTINGS {
            command.args(["-c", setting]);
        }
        if let Some(scratch) = scratch {
            command.env("GIT_OBJECT_DIRECTORY", scratch);
            command.env("GIT_ALTERNATE_OBJECT_DIRECTORIES", listed(&repository.join("objects")));
        }
        command.arg(option("--git-dir", repository));
        command
    }

    fn spawn_merge(&self, name: &'static str, command: &mut Command) -> Result<GitChild, GitError> {
        let child = self.spawn_with(name, command, MERGE_CPU)?;
        if let Some(process) = &child.child {
            limit_allocations(process, MAX_MERGE_MEMORY_BYTES);
        }
        Ok(child)
    }
}
