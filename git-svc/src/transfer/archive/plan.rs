//! Looks through a tree before a byte is sent: whether an archive of it is allowed, and who makes it.

use git2::{Oid, Repository};

use crate::{
    repo::read::{
        EntryKind,
        tree::{Step, WalkEntry, blob_size, walk},
    },
    types::error::GitError,
};

/// What an archive may hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ArchiveLimits {
    /// Files and folders.
    pub(crate) entries: u64,
    /// Bytes of files.
    pub(crate) bytes: u64,
    /// Bytes of paths.
    pub(crate) paths: u64,
    /// Bytes of a file that we read as a whole; with a larger one, git makes the archive.
    pub(crate) whole: u64,
}

impl Default for ArchiveLimits {
    fn default() -> Self {
        Self { entries: 200_000, bytes: 2 << 30, paths: 64 << 20, whole: 32 << 20 }
    }
}

/// How an archive is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ArchivePlan {
    pub(super) tree: Oid,
    /// The commit's time.
    pub(super) seconds: i64,
    /// Whether it takes git: attributes leave files out or change them, or one is large.
    pub(super) by_git: bool,
}

/// The largest `.gitattributes` that is looked into.
const MAX_ATTRIBUTES: u64 = 1 << 20;

/// What attributes that matter are written with.
const ATTRIBUTES: [&[u8]; 5] = [b"export-ignore", b"export-subst", b"eol=crlf", b"ident", b"working-tree-encoding"];

/// Looks through the tree of `commit`.
///
/// Errors: `TooLarge`, `Invalid` for a name that would lead out of the folder, and those of `check`, asked for every entry.
pub(super) fn plan(
    repo: &Repository,
    commit: Oid,
    limits: &ArchiveLimits,
    check: impl Fn() -> Result<(), GitError>,
) -> Result<ArchivePlan, GitError> {
    let commit = repo.find_commit(commit)?;
    let odb = repo.odb()?;
    let (mut entries, mut bytes, mut paths, mut by_git) = (0, 0_u64, 0, false);
    walk(repo, commit.tree()?, |entry| {
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
        let size = blob_size(&odb, entry.id)?;
        bytes = bytes.saturating_add(size);
        if bytes > limits.bytes {
            return Err(GitError::TooLarge { what: "the size of all files", limit: limits.bytes });
        }
        by_git = by_git || size > limits.whole || has_attributes(repo, entry, size)?;
        Ok(Step::Into)
    })?;
    Ok(ArchivePlan { tree: commit.tree_id(), seconds: commit.time().seconds(), by_git })
}

/// git lets no such name in; a tree that has one all the same is not handed on.
fn check_name(name: &[u8]) -> Result<(), GitError> {
    if matches!(name, b"" | b"." | b"..") || name.contains(&b'/') {
        return Err(GitError::invalid("revision", "invalid", "the tree holds a name that leads out of it"));
    }
    Ok(())
}

/// Whether it is a `.gitattributes` that says something about archives.
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
