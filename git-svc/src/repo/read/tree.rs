//! The entries of a tree, with their sizes and without their bytes; and the walk through a tree and all below it.

use git2::{ObjectType, Oid, Repository, Tree};

use super::{deadline::Deadline, entry::EntryKind};
use crate::{
    repo::revision::Revision,
    types::{error::GitError, path::MAX_PATH},
};

/// The most entries of one answer.
pub const MAX_ITEMS: usize = 100_000;
/// The most bytes of their paths.
pub const MAX_PATHS: usize = 8 << 20;

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeItem {
    /// The path from the tree that was asked for.
    pub path: Vec<u8>,
    /// As git writes it, without the bits that only old versions set.
    pub mode: u32,
    /// The object.
    pub id: Oid,
    /// Bytes of a blob; absent for trees and submodules.
    pub size: Option<u64>,
}

/// The entries of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeListing {
    /// The tree.
    pub id: Oid,
    /// In git's order; each tree before what is in it.
    pub items: Vec<TreeItem>,
    /// Whether there are more.
    pub is_truncated: bool,
}

/// What a walk does after an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Goes on, into the entry if it is a tree.
    Into,
    /// Goes on behind it.
    Over,
    /// Ends.
    End,
}

/// The tree that `revision` names, or leads to, and its entries.
///
/// Errors: `RevisionNotFound`, and those of the watch.
pub fn tree(
    repo: &Repository,
    revision: &Revision,
    is_recursive: bool,
    deadline: &Deadline,
) -> Result<TreeListing, GitError> {
    let id = revision.resolve_tree(repo)?;
    let odb = repo.odb()?;
    let mut listing = TreeListing { id, items: Vec::new(), is_truncated: false };
    let mut room = MAX_PATHS;
    walk(repo, repo.find_tree(id)?, |entry| {
        deadline.check()?;
        let Some(left) = room.checked_sub(entry.path.len()).filter(|_| listing.items.len() < MAX_ITEMS) else {
            listing.is_truncated = true;
            return Ok(Step::End);
        };
        room = left;
        let size = match EntryKind::of(entry.mode) {
            EntryKind::Directory | EntryKind::Submodule => None,
            EntryKind::File | EntryKind::Symlink => Some(blob_size(&odb, entry.id)?),
        };
        listing.items.push(TreeItem { path: entry.path.to_vec(), mode: mode(entry.mode), id: entry.id, size });
        Ok(if is_recursive { Step::Into } else { Step::Over })
    })?;
    Ok(listing)
}

fn mode(mode: i32) -> u32 {
    u32::try_from(mode).unwrap_or(0)
}

/// The size of a blob, from its header.
pub(crate) fn blob_size(odb: &git2::Odb<'_>, id: Oid) -> Result<u64, GitError> {
    let (size, kind) = odb.read_header(id)?;
    if kind != ObjectType::Blob {
        return Err(GitError::Internal(format!("`{id}` stands for a file and is a {kind}")));
    }
    Ok(size as u64)
}

/// An entry that a walk has come to.
pub(crate) struct WalkEntry<'a> {
    /// From the root of the walk.
    pub(crate) path: &'a [u8],
    /// Its last part.
    pub(crate) name: &'a [u8],
    pub(crate) mode: i32,
    pub(crate) id: Oid,
}

/// Shows `visit` every entry in git's order. Keeps one tree per level in memory; levels are bounded by the length of a path.
///
/// Errors: `TooLarge` for a path that is longer than any we take, and those of `visit`.
pub(crate) fn walk(
    repo: &Repository,
    root: Tree<'_>,
    mut visit: impl FnMut(&WalkEntry<'_>) -> Result<Step, GitError>,
) -> Result<(), GitError> {
    let mut path = Vec::new();
    // Trees, the next entry of each, and the length of the path to it.
    let mut levels = vec![(root, 0_usize, 0_usize)];
    while let Some((tree, next, base)) = levels.last_mut() {
        path.truncate(*base);
        let Some(entry) = tree.get(*next) else {
            levels.pop();
            continue;
        };
        *next += 1;
        path.extend_from_slice(entry.name_bytes());
        if path.len() > MAX_PATH {
            return Err(GitError::TooLarge { what: "a path of the tree", limit: MAX_PATH as u64 });
        }
        let (mode, id) = (entry.filemode(), entry.id());
        match visit(&WalkEntry { path: &path, name: entry.name_bytes(), mode, id })? {
            Step::End => return Ok(()),
            Step::Over => {}
            Step::Into if EntryKind::of(mode) == EntryKind::Directory => {
                path.push(b'/');
                let base = path.len();
                drop(entry);
                levels.push((repo.find_tree(id)?, 0, base));
            }
            Step::Into => {}
        }
    }
    Ok(())
}
