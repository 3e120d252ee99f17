//! Walks a tree before the first byte is sent: checks the limits of an archive, and decides whether
//! git has to make it.

use git_store::{
    repo::{
        deltas::LoadCheck,
        objects,
        read::{
            EntryKind,
            commit::time_and_parents,
            tree::{Step, WalkEntry, blob_size, walk},
        },
    },
    types::error::GitError,
};
use git2::{Oid, Repository, Tree};

#[derive(Clone, Copy, Debug)]
pub(crate) struct ArchiveLimits {
    /// Limit on the number of files and directories.
    pub(crate) entries: u64,
    /// Limit on the bytes of all files.
    pub(crate) bytes: u64,
    /// Limit on the bytes of all paths.
    pub(crate) paths: u64,
    /// Limit on the bytes of a file that is read into memory. git makes archives with a larger
    /// file, or with a delta of an object that is too large to load.
    pub(crate) whole: u64,
}

impl Default for ArchiveLimits {
    fn default() -> Self {
        Self { entries: 200_000, bytes: 2 << 30, paths: 64 << 20, whole: 32 << 20 }
    }
}

impl ArchiveLimits {
    /// Limit on the bytes of an archive that git makes, whatever attributes do to its files.
    pub(crate) fn output(&self) -> u64 {
        let entries = self.entries.saturating_mul(BYTES_PER_ENTRY).saturating_add(self.paths.saturating_mul(2));
        self.bytes.saturating_add(entries).saturating_add(BYTES_PER_ARCHIVE)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ArchivePlan {
    pub(super) tree: Oid,
    /// Time of the commit, in seconds since 1970.
    pub(super) seconds: i64,
    /// Whether git has to make the archive, because attributes exclude or change files, or a file
    /// is large.
    pub(super) by_git: bool,
    /// Memory that git needs for files that are stored as deltas, in bytes; 0 if the repository is
    /// marked to have no large ones.
    pub(super) delta_bytes: u64,
}

/// Limit on the bytes of a `.gitattributes` file to search. With a larger one, git makes the
/// archive.
const MAX_ATTRIBUTES: u64 = 1 << 20;

/// Attributes that change the content of an archive. `export-subst` is missing on purpose: it could
/// expand a small tree to an archive of any size, so it is never expanded.
const ATTRIBUTES: [&[u8]; 4] = [b"export-ignore", b"eol=crlf", b"ident", b"working-tree-encoding"];

/// Overhead of each entry beside content and paths: headers, extended headers and padding.
const BYTES_PER_ENTRY: u64 = 2048;
/// Overhead of an archive beside its entries.
const BYTES_PER_ARCHIVE: u64 = 1 << 20;

/// Checks the tree of `commit` against the limits, and chooses the writer. Fails with `TooLarge`,
/// with `Invalid` for a name that escapes the directory, and with errors of `check`, which is
/// called for every entry.
pub(super) fn plan(
    repo: &Repository,
    commit: Oid,
    limits: &ArchiveLimits,
    check: impl Fn() -> Result<(), GitError>,
) -> Result<ArchivePlan, GitError> {
    let tree = objects::tree_of(repo, commit)?;
    let (id, (seconds, _)) = (tree.id(), time_and_parents(repo, commit)?);
    let CheckedTree { by_git, delta_bytes, .. } = check_tree(repo, tree, &[], limits, check)?;
    Ok(ArchivePlan { tree: id, seconds, by_git, delta_bytes })
}

/// A tree within the limits.
#[derive(Clone, Copy, Debug)]
pub(super) struct CheckedTree {
    /// Whether git has to make the archive.
    by_git: bool,
    /// Whether a file is a delta of an object that is too large to load.
    pub(super) has_large_deltas: bool,
    /// Largest memory need of a file that is stored as a delta, in bytes.
    delta_bytes: u64,
}

/// Checks a tree against the limits. With `selected` paths, only the bytes of their files count;
/// git lists the whole tree in either case. Fails like [`plan`].
pub(super) fn check_tree(
    repo: &Repository,
    tree: Tree<'_>,
    selected: &[Vec<u8>],
    limits: &ArchiveLimits,
    check: impl Fn() -> Result<(), GitError>,
) -> Result<CheckedTree, GitError> {
    let (odb, loads) = (repo.odb()?, LoadCheck::new(repo));
    let (mut entries, mut bytes, mut paths) = (0, 0_u64, 0);
    let mut checked = CheckedTree { by_git: false, has_large_deltas: false, delta_bytes: 0 };
    walk(repo, tree, |entry| {
        check()?;
        check_name(entry.name)?;
        entries += 1;
        paths += entry.path.len() as u64;
        if entries > limits.entries {
            return Err(GitError::TooLarge { what: "the number of files", limit: limits.entries });
        }
        if paths > limits.paths {
            return Err(GitError::TooLarge { what: "the length of all paths", limit: limits.paths });
        }
        if !matches!(EntryKind::of(entry.mode), EntryKind::File | EntryKind::Symlink) {
            return Ok(Step::Into);
        }
        let (size, cost) = (blob_size(&odb, entry.id)?, loads.cost(entry.id)?);
        if is_selected(entry.path, selected) {
            bytes = bytes.saturating_add(size);
            checked.has_large_deltas |= cost.is_large;
        }
        checked.delta_bytes = checked.delta_bytes.max(cost.bytes);
        if bytes > limits.bytes {
            return Err(GitError::TooLarge { what: "the size of all files", limit: limits.bytes });
        }
        checked.by_git = checked.by_git || size > limits.whole || cost.is_large || has_attributes(repo, entry, size)?;
        Ok(Step::Into)
    })?;
    Ok(checked)
}

/// Returns whether a path is selected or below a selected one. If none is selected, all are.
fn is_selected(path: &[u8], selected: &[Vec<u8>]) -> bool {
    let leads_to =
        |one: &Vec<u8>| path.strip_prefix(one.as_slice()).is_some_and(|rest| matches!(rest, [] | [b'/', ..]));
    selected.is_empty() || selected.iter().any(leads_to)
}

/// Rejects a name that escapes the directory. git accepts no such tree, so this is a second check.
fn check_name(name: &[u8]) -> Result<(), GitError> {
    if matches!(name, b"" | b"." | b"..") || name.contains(&b'/') {
        return Err(GitError::invalid("revision", "invalid", "the tree contains a name that escapes it"));
    }
    Ok(())
}

/// Returns whether the entry is a `.gitattributes` file that may change an archive.
fn has_attributes(repo: &Repository, entry: &WalkEntry<'_>, size: u64) -> Result<bool, GitError> {
    if entry.name != b".gitattributes" || EntryKind::of(entry.mode) != EntryKind::File {
        return Ok(false);
    }
    if size > MAX_ATTRIBUTES {
        return Ok(true);
    }
    let blob = repo.find_blob(entry.id)?;
    let has = |wanted: &&[u8]| blob.content().windows(wanted.len()).any(|found| found == *wanted);
    Ok(ATTRIBUTES.iter().any(has))
}
