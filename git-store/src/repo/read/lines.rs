//! Finds lines of files: where those of older commits are now, and which exist. What has to be
//! compared is collected, for one process of a [`Comparer`](super::diff::Comparer).

use std::{collections::HashMap, ops::Range};

use git2::{Oid, Repository};

use super::{
    contents::find,
    deadline::Deadline,
    diff::{BlobPair, ChangeStatus, ChangedFile, ChangedLines, ShownLine},
    entry::{EntryKind, is_binary, read_blob},
    pushed::is_commit,
};
use crate::{
    repo::{deltas::LoadCheck, objects},
    types::{error::GitError, path::TreePath},
};

/// Largest file whose lines are read, in bytes.
pub const MAX_FILE_BYTES: u64 = 1 << 20;
/// Maximum number of pairs of files that are compared.
pub const MAX_COMPARED_FILES: usize = 100;
/// Limit on all files that are compared, in bytes.
pub const MAX_COMPARED_BYTES: usize = 32 << 20;

/// Lines of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileLines {
    /// The path.
    pub path: TreePath,
    /// The lines, counted from 0. Not empty.
    pub lines: Range<u32>,
}

/// Lines to follow from one commit to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinesToFollow {
    /// The lines.
    pub lines: FileLines,
    /// The commit that has them.
    pub from: Oid,
    /// The commit in which they are looked for.
    pub to: Oid,
}

/// Where lines are, as far as it is known without a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Followed {
    Gone,
    /// The file is the same.
    Unchanged(Range<u32>),
    /// In the pair with this index.
    Compared(usize, Range<u32>),
}

/// Lines to follow, and the pairs of blobs whose changes decide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FollowPlan {
    followed: Vec<Followed>,
    /// The pairs to compare.
    pub pairs: Vec<BlobPair>,
}

impl FollowPlan {
    /// Returns the last of the lines now, from 1, in the order of the request; `None` if they were
    /// changed. `changes` has those of each pair.
    #[must_use]
    pub fn last_lines<L: AsRef<[ChangedLines]>>(&self, changes: &[L]) -> Vec<Option<u32>> {
        let last = |followed: &Followed| match followed {
            Followed::Gone => None,
            Followed::Unchanged(lines) => Some(lines.end),
            Followed::Compared(pair, lines) => moved(lines, changes.get(*pair)?.as_ref()),
        };
        self.followed.iter().map(last).collect()
    }
}

/// Returns the last line after changes, from 1. Lines between which others were added are changed,
/// too.
fn moved(lines: &Range<u32>, changes: &[ChangedLines]) -> Option<u32> {
    let before = changes.partition_point(|change| change.old.end <= lines.start);
    if changes.get(before).is_some_and(|change| change.old.start < lines.end) {
        return None;
    }
    match before.checked_sub(1).map(|at| &changes[at]) {
        Some(change) => (lines.end - change.old.end).checked_add(change.new.end),
        None => Some(lines.end),
    }
}

/// Looks for the files of lines to follow. Lines whose commits or files do not exist are gone, and so
/// are those of changed files that are not compared: binary and large ones, and further ones.
pub fn follow(repo: &Repository, requests: &[LinesToFollow], deadline: &Deadline) -> Result<FollowPlan, GitError> {
    let mut files = Files::new(repo, deadline);
    let mut followed = Vec::with_capacity(requests.len());
    for LinesToFollow { lines: FileLines { path, lines }, from, to } in requests {
        let (old, new) = (files.version(*from, path)?, files.version(*to, path)?);
        followed.push(match (old, new) {
            (Some(old), Some(new)) if old == new => Followed::Unchanged(lines.clone()),
            (Some(old), Some(new)) if old.kind == new.kind => {
                match files.pair(BlobPair { old: Some(old.id), new: Some(new.id) })? {
                    Some(pair) if files.find(old.id, lines)? == Found::Lines => Followed::Compared(pair, lines.clone()),
                    _ => Followed::Gone,
                }
            }
            _ => Followed::Gone,
        });
    }
    Ok(FollowPlan { followed, pairs: files.pairs })
}

/// Lines to find in a diff.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinesToFind {
    /// The lines.
    pub lines: FileLines,
    /// Whether they are of the old side.
    pub is_old: bool,
}

/// What there is of lines that were looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The lines.
    Lines,
    /// A text without these lines.
    Text,
    /// No file, or one that is binary or too large.
    Nothing,
}

/// Which lines exist, and where the diff shows them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FindPlan {
    /// In the order of the request.
    pub found: Vec<Found>,
    /// The last line of each, in the pairs; `None` if no diff shows it.
    pub shown: Vec<Option<ShownLine>>,
    /// The pairs to compare.
    pub pairs: Vec<BlobPair>,
    /// Whether a file is on one side alone, and not among the renamed ones that are known.
    pub has_lone_files: bool,
}

/// The files that a diff shows as renamed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Renames {
    old_paths: HashMap<TreePath, TreePath>,
    new_paths: HashMap<TreePath, TreePath>,
}

impl Renames {
    /// Returns those among the files of a diff.
    #[must_use]
    pub fn of(files: &[ChangedFile]) -> Self {
        let mut renames = Self::default();
        for file in files.iter().filter(|file| file.status == ChangeStatus::Renamed) {
            let old = file.old_path.as_deref().map(TreePath::literal);
            if let (Some(Ok(old)), Ok(new)) = (old, TreePath::literal(&file.path)) {
                renames.old_paths.insert(new.clone(), old.clone());
                renames.new_paths.insert(old, new);
            }
        }
        renames
    }

    /// Returns whether no file is renamed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.old_paths.is_empty()
    }

    /// Returns the path of a file on the other side.
    fn other(&self, path: &TreePath, is_old: bool) -> Option<&TreePath> {
        if is_old { self.new_paths.get(path) } else { self.old_paths.get(path) }
    }
}

/// Looks for lines of the two sides of a diff.
///
/// # Errors
/// `CommitNotFound`.
pub fn find_lines(
    repo: &Repository,
    (old, new): (Oid, Oid),
    requests: &[LinesToFind],
    renames: &Renames,
    deadline: &Deadline,
) -> Result<FindPlan, GitError> {
    for commit in [old, new] {
        if !is_commit(repo, commit)? {
            return Err(GitError::CommitNotFound);
        }
    }
    let mut files = Files::new(repo, deadline);
    let (mut found, mut shown) = (Vec::with_capacity(requests.len()), Vec::with_capacity(requests.len()));
    let mut has_lone_files = false;
    for LinesToFind { lines: FileLines { path, lines }, is_old } in requests {
        let (own, other_commit) = if *is_old { (old, new) } else { (new, old) };
        let own = files.version(own, path)?;
        let of_file = own.map_or(Ok(Found::Nothing), |own| files.find(own.id, lines))?;
        found.push(of_file);
        let (Some(own), Found::Lines) = (own, of_file) else {
            shown.push(None);
            continue;
        };
        let other = match (files.version(other_commit, path)?, renames.other(path, *is_old)) {
            (None, Some(path)) => files.version(other_commit, path)?,
            (other, _) => {
                has_lone_files |= other.is_none();
                other
            }
        };
        shown.push(if other == Some(own) {
            None
        } else {
            // What became a symbolic link is a removed file and a new one.
            let other = other.filter(|other| other.kind == own.kind).map(|other| other.id);
            let (old, new) = if *is_old { (Some(own.id), other) } else { (other, Some(own.id)) };
            files.pair(BlobPair { old, new })?.map(|pair| ShownLine { pair, is_old: *is_old, line: lines.end })
        });
    }
    Ok(FindPlan { found, shown, pairs: files.pairs, has_lone_files })
}

/// A file or symbolic link of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Version {
    kind: EntryKind,
    id: Oid,
}

/// The size of a text.
#[derive(Clone, Copy, Debug)]
struct TextSize {
    bytes: usize,
    lines: usize,
}

/// Files that were looked for, each once.
struct Files<'a> {
    repo: &'a Repository,
    loads: LoadCheck<'a>,
    deadline: &'a Deadline,
    versions: HashMap<(Oid, TreePath), Option<Version>>,
    /// By blob; `None` for binary and large ones.
    texts: HashMap<Oid, Option<TextSize>>,
    /// The indexes of pairs; `None` for those that are not compared.
    known: HashMap<BlobPair, Option<usize>>,
    pairs: Vec<BlobPair>,
    bytes_left: usize,
}

impl<'a> Files<'a> {
    fn new(repo: &'a Repository, deadline: &'a Deadline) -> Self {
        Self {
            repo,
            loads: LoadCheck::new(repo),
            deadline,
            versions: HashMap::new(),
            texts: HashMap::new(),
            known: HashMap::new(),
            pairs: Vec::new(),
            bytes_left: MAX_COMPARED_BYTES,
        }
    }

    /// Returns the file at a path; `None` if there is none, or no such commit.
    fn version(&mut self, commit: Oid, path: &TreePath) -> Result<Option<Version>, GitError> {
        let key = (commit, path.clone());
        if let Some(known) = self.versions.get(&key) {
            return Ok(*known);
        }
        self.deadline.check()?;
        let found = match self.read_version(commit, path) {
            Err(error) if error.is_unreadable() => None,
            found => found?,
        };
        self.versions.insert(key, found);
        Ok(found)
    }

    fn read_version(&self, commit: Oid, path: &TreePath) -> Result<Option<Version>, GitError> {
        if !is_commit(self.repo, commit)? {
            return Ok(None);
        }
        let entry = find(self.repo, &objects::tree_of(self.repo, commit)?, path)?;
        let version = entry.map(|(mode, id)| Version { kind: EntryKind::of(mode), id });
        Ok(version.filter(|version| matches!(version.kind, EntryKind::File | EntryKind::Symlink)))
    }

    /// Looks for lines in a blob.
    fn find(&mut self, blob: Oid, lines: &Range<u32>) -> Result<Found, GitError> {
        Ok(match self.text(blob)? {
            Some(text) if lines.end as usize <= text.lines => Found::Lines,
            Some(_) => Found::Text,
            None => Found::Nothing,
        })
    }

    fn text(&mut self, blob: Oid) -> Result<Option<TextSize>, GitError> {
        if let Some(known) = self.texts.get(&blob) {
            return Ok(*known);
        }
        self.deadline.check()?;
        let (_, content) = read_blob(&self.loads, blob, MAX_FILE_BYTES)?;
        let text = content.filter(|content| !is_binary(content)).map(|content| TextSize {
            bytes: content.len(),
            lines: content.split_inclusive(|byte| *byte == b'\n').count(),
        });
        self.texts.insert(blob, text);
        Ok(text)
    }

    /// Returns the index of a pair to compare; `None` beyond the limits.
    fn pair(&mut self, pair: BlobPair) -> Result<Option<usize>, GitError> {
        if let Some(known) = self.known.get(&pair) {
            return Ok(*known);
        }
        if self.known.len() >= MAX_COMPARED_FILES {
            return Ok(None);
        }
        let index = self.add(pair)?;
        self.known.insert(pair, index);
        Ok(index)
    }

    fn add(&mut self, pair: BlobPair) -> Result<Option<usize>, GitError> {
        let mut bytes = 0;
        for blob in [pair.old, pair.new].into_iter().flatten() {
            let Some(text) = self.text(blob)? else { return Ok(None) };
            bytes += text.bytes;
        }
        let Some(left) = self.bytes_left.checked_sub(bytes) else { return Ok(None) };
        self.bytes_left = left;
        self.pairs.push(pair);
        Ok(Some(self.pairs.len() - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_move_by_the_changes_before_them() {
        let changed = |old: Range<u32>, new: Range<u32>| ChangedLines { old, new };
        // Three lines added after the second, then lines 6 to 8 replaced by one.
        let changes = [changed(2..2, 2..5), changed(5..8, 8..9)];
        for (lines, expected) in [
            (0..1, Some(1)),
            (0..2, Some(2)),
            (2..3, Some(6)),
            (2..5, Some(8)),
            (8..9, Some(10)),
            (8..20, Some(21)),
            (1..3, None),
            (4..6, None),
            (5..8, None),
            (7..9, None),
            (0..20, None),
        ] {
            assert_eq!(moved(&lines, &changes), expected, "{lines:?}");
            assert_eq!(moved(&lines, &[]), Some(lines.end));
        }
        // A removed part, and an insertion at the start.
        assert_eq!(moved(&(3..4), &[changed(0..3, 0..0)]), Some(1));
        assert_eq!(moved(&(0..1), &[changed(0..0, 0..2)]), Some(3));
    }
}
