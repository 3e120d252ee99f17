//! Diffs as data: the files that differ between two commits, and their lines.
//!
//! git itself compares (`git diff-tree`), because libgit2 finds other renames and other functions
//! for the headers of hunks. The data is parsed from the output that has the text as well, so the
//! two cannot disagree. One process serves many commits.
//!
//! Reading ends at the limits of time and bytes, and the process is killed: the rest is missing,
//! and marked so.

mod ahead;
mod blobs;
mod changes;
mod patch;
pub(super) mod process;

use std::time::Duration;

use git2::{Oid, Repository};

use super::commit::time_and_parents;
use crate::{git::command::diff::Whitespace, types::error::GitError};

pub(in crate::repo) use self::blobs::numbered_tree;
pub use self::{
    ahead::{Ahead, MAX_AHEAD_STEPS, ahead, ahead_by_git, merge_base, merge_base_across},
    blobs::{BlobPair, ChangedLines, Comparer, MAX_HUNK_BYTES, MAX_HUNK_LINES, ShownLine},
    process::{ChangesOutcome, read_changes, read_diff},
};

/// Longest text of a diff or of patches, in bytes.
pub const MAX_TEXT_BYTES: u64 = 50 << 20;
/// Maximum number of files of one diff.
pub const MAX_FILES: usize = 3000;
/// Maximum number of files of several diffs together.
pub const MAX_FILES_OF_ALL: usize = 10_000;
/// Limit on the paths of all files, in bytes of JSON.
pub const MAX_PATH_BYTES: usize = 2 << 20;
/// Maximum number of lines of one file, with those around the changes.
pub const MAX_FILE_LINES: usize = 10_000;
/// Maximum number of lines of all files.
pub const MAX_LINES: usize = 100_000;
/// Limit on the lines of all files, in bytes.
pub const MAX_LINE_BYTES_OF_ALL: usize = 8 << 20;
/// Longest line in bytes. A longer one is cut.
pub const MAX_LINE_BYTES: usize = 32 << 10;
/// Output of git that is read for data, in bytes.
const MAX_READ_BYTES: u64 = 64 << 20;
/// Time limit for data.
pub const DIFF_TIMEOUT: Duration = Duration::from_secs(15);

/// Two commits to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiffPair {
    /// The old commit; `None` only for the first parent of a commit without parents.
    pub old: Option<Oid>,
    /// The new commit.
    pub new: Oid,
}

/// How much of the changes to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangeLimits {
    /// Whether to count changed lines, which takes longer. They are always counted if changes of
    /// whitespace are ignored.
    pub with_lines: bool,
    /// Which changes of lines count.
    pub whitespace: Whitespace,
    /// Maximum number of files of one pair.
    pub files: usize,
    /// Maximum number of files of all pairs.
    pub files_of_all: usize,
    /// Limit on the paths of all files, in bytes of JSON.
    pub path_bytes: usize,
}

/// What happened to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeStatus {
    /// It is new.
    Added,
    /// It has another content or mode.
    Changed,
    /// It is gone.
    Deleted,
    /// It has another path, and possibly another content or mode.
    Renamed,
    /// It is a copy of another.
    Copied,
    /// It became a file, a symbolic link or a submodule.
    TypeChanged,
}

/// A file that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedFile {
    /// What happened to it.
    pub status: ChangeStatus,
    /// The path; the former one of a deleted file.
    pub path: Vec<u8>,
    /// The former path of a renamed file, or the path that a copy was made from.
    pub old_path: Option<Vec<u8>>,
    /// The former mode; 0 for a new file.
    pub old_mode: u32,
    /// The mode; 0 for a deleted file.
    pub new_mode: u32,
    /// The former blob or submodule commit; zero for a new file.
    pub old_id: Oid,
    /// The blob or submodule commit; zero for a deleted file.
    pub new_id: Oid,
    /// Similarity of a renamed or copied file in percent, else 0.
    pub similarity: u32,
    /// Added lines; 0 if they were not counted.
    pub additions: u64,
    /// Deleted lines; 0 if they were not counted.
    pub deletions: u64,
    /// Whether git compared it as binary, so that no lines were counted.
    pub is_binary: bool,
}

/// The changes between two commits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// The files, in git's order.
    pub files: Vec<ChangedFile>,
    /// Number of files, also of those that are left out.
    pub file_count: usize,
    /// Added lines of all files.
    pub additions: u64,
    /// Deleted lines of all files.
    pub deletions: u64,
    /// Whether files were left out. The numbers still count them, unless time ran out.
    pub is_truncated: bool,
}

/// A diff with its lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diff {
    /// The changes; their files are in `files`.
    pub changes: Changes,
    /// The hunks of each file of the changes.
    pub patches: Vec<FilePatch>,
}

/// The changed lines of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilePatch {
    /// The hunks; none for a binary file, or if only mode, path or ignored whitespace differ. A file
    /// that changed its type has those of the former file, then those of the new one.
    pub hunks: Vec<Hunk>,
    /// Whether lines were left out or cut.
    pub is_truncated: bool,
}

/// Changed lines with three lines around them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hunk {
    /// First line in the old file, from 1; 0 if it has none.
    pub old_start: u32,
    /// Lines in the old file.
    pub old_lines: u32,
    /// First line in the new file, from 1; 0 if it has none.
    pub new_start: u32,
    /// Lines in the new file.
    pub new_lines: u32,
    /// The line that git shows as the context of the hunk, such as the name of a function.
    pub section: Vec<u8>,
    /// The lines. There are fewer if the file is truncated.
    pub lines: Vec<HunkLine>,
}

impl Hunk {
    /// Appends the hunk as git prints it.
    pub fn print(&self, text: &mut Vec<u8>) {
        let range = |start: u32, lines: u32| if lines == 1 { start.to_string() } else { format!("{start},{lines}") };
        let (old, new) = (range(self.old_start, self.old_lines), range(self.new_start, self.new_lines));
        text.extend_from_slice(format!("@@ -{old} +{new} @@").as_bytes());
        if !self.section.is_empty() {
            text.push(b' ');
            text.extend_from_slice(&self.section);
        }
        text.push(b'\n');
        for HunkLine { kind, text: line, has_newline } in &self.lines {
            text.push(match kind {
                LineKind::Context => b' ',
                LineKind::Added => b'+',
                LineKind::Deleted => b'-',
            });
            text.extend_from_slice(line);
            text.extend_from_slice(if *has_newline { b"\n" } else { b"\n\\ No newline at end of file\n" });
        }
    }
}

/// The side of a line in a hunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineKind {
    /// In both files.
    Context,
    /// Only in the new file.
    Added,
    /// Only in the old file.
    Deleted,
}

/// A line of a hunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HunkLine {
    /// Which of the files has it.
    pub kind: LineKind,
    /// The line without its line feed.
    pub text: Vec<u8>,
    /// Whether it ends in a line feed. Only the last line of a file may not.
    pub has_newline: bool,
}

impl Changes {
    /// Leaves out files of which only ignored whitespace differs. `--raw` lists them, the text has
    /// none. The numbers of lines must have been read.
    fn leave_out_ignored(&mut self) {
        let listed = self.files.len();
        self.files.retain(|file| !file.has_ignored_changes_alone());
        self.file_count -= listed - self.files.len();
    }
}

impl ChangedFile {
    /// Whether nothing differs but content, and no lines of that.
    fn has_ignored_changes_alone(&self) -> bool {
        let has_lines = self.additions > 0 || self.deletions > 0 || self.is_binary;
        self.status == ChangeStatus::Changed && self.old_mode == self.new_mode && !has_lines
    }
}

impl DiffPair {
    /// For what a commit changed: its first parent and itself.
    pub fn of_commit(repo: &Repository, commit: Oid) -> Result<Self, GitError> {
        let (_, parents) = time_and_parents(repo, commit)?;
        Ok(Self { old: parents.first().copied(), new: commit })
    }
}

impl ChangeLimits {
    /// For a single diff.
    #[must_use]
    pub fn single() -> Self {
        Self {
            with_lines: true,
            whitespace: Whitespace::ShowAll,
            files: MAX_FILES,
            files_of_all: MAX_FILES,
            path_bytes: MAX_PATH_BYTES,
        }
    }

    /// For the commits of a page.
    #[must_use]
    pub fn page() -> Self {
        Self { files_of_all: MAX_FILES_OF_ALL, ..Self::single() }
    }
}
