//! Lists the entries of a tree with their sizes, and walks trees recursively.

use git2::{ObjectType, Oid, Repository, Tree};

use super::{deadline::Deadline, entry::EntryKind};
use crate::{
    repo::{objects, revision::Revision},
    types::{error::GitError, path::MAX_PATH},
};

/// Maximum number of entries per response.
pub const MAX_ITEMS: usize = 100_000;
/// Maximum size of all paths in a response, in bytes.
pub const MAX_PATHS: usize = 8 << 20;
/// Maximum stored size of the trees on the way to an entry, in bytes. They take about twice as much
/// memory.
const MAX_WALK_BYTES: u64 = 64 << 20;

/// An entry of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeItem {
    /// The path from the listed tree.
    pub path: Vec<u8>,
    /// The mode as git writes it today, without bits that only old versions set.
    pub mode: u32,
    /// The id of the object.
    pub id: Oid,
    /// Size of a blob in bytes; `None` for trees and submodules.
    pub size: Option<u64>,
}

/// The entries of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeListing {
    /// The id of the tree.
    pub id: Oid,
    /// The entries in git's order; a tree comes before its entries.
    pub items: Vec<TreeItem>,
    /// Whether entries are missing at the end.
    pub is_truncated: bool,
}

/// The next step of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Continue, and descend into the entry if it is a tree.
    Into,
    /// Continue after the entry, without descending.
    Over,
    /// End the walk.
    End,
}

/// Lists the tree that `revision` names or leads to.
///
/// # Errors
/// `RevisionNotFound`, and `TooLarge` for a path above [`MAX_PATH`].
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
    walk(repo, objects::find_tree(repo, id)?, |entry| {
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
        listing.items.push(TreeItem {
            path: entry.path.to_vec(),
            mode: u32::try_from(entry.mode).unwrap_or(0),
            id: entry.id,
            size,
        });
        Ok(if is_recursive { Step::Into } else { Step::Over })
    })?;
    Ok(listing)
}

/// Reads the size of a blob from its header.
pub fn blob_size(odb: &git2::Odb<'_>, id: Oid) -> Result<u64, GitError> {
    let (size, kind) = odb.read_header(id)?;
    if kind != ObjectType::Blob {
        return Err(GitError::Internal(format!("`{id}` should be a blob but is a {kind}")));
    }
    Ok(size as u64)
}

/// The current entry of a walk.
pub struct WalkEntry<'a> {
    /// The path from the root of the walk.
    pub path: &'a [u8],
    /// The last component of the path.
    pub name: &'a [u8],
    /// The mode as stored.
    pub mode: i32,
    /// Id of the blob, tree or commit.
    pub id: Oid,
}

/// Calls `visit` for every entry in git's order. Keeps one tree per level in memory, bounded by the
/// path length limit and [`MAX_WALK_BYTES`].
///
/// # Errors
/// `TooLarge` for too long a path or too large trees, and those of `visit`.
pub fn walk(
    repo: &Repository,
    root: Tree<'_>,
    mut visit: impl FnMut(&WalkEntry<'_>) -> Result<Step, GitError>,
) -> Result<(), GitError> {
    let mut path = Vec::new();
    let (_, mut bytes) = objects::header(repo, root.id())?;
    // Per level: the tree and its size, the index of the next entry, the length of its path.
    let mut levels = vec![((root, bytes), 0_usize, 0_usize)];
    while let Some(((tree, tree_bytes), next, base)) = levels.last_mut() {
        path.truncate(*base);
        let Some(entry) = tree.get(*next) else {
            bytes -= *tree_bytes;
            levels.pop();
            continue;
        };
        *next += 1;
        path.extend_from_slice(entry.name_bytes());
        if path.len() > MAX_PATH {
            return Err(GitError::TooLarge { what: "the length of a path in the tree", limit: MAX_PATH as u64 });
        }
        let (mode, id) = (objects::entry_mode(&entry), entry.id());
        match visit(&WalkEntry { path: &path, name: entry.name_bytes(), mode, id })? {
            Step::End => return Ok(()),
            Step::Over => {}
            Step::Into if EntryKind::of(mode) == EntryKind::Directory => {
                path.push(b'/');
                let base = path.len();
                drop(entry);
                let below = objects::sized_tree(repo, id)?;
                bytes += below.1;
                if bytes > MAX_WALK_BYTES {
                    return Err(GitError::TooLarge {
                        what: "the size of the folders above a path",
                        limit: MAX_WALK_BYTES,
                    });
                }
                levels.push((below, 0, base));
            }
            Step::Into => {}
        }
    }
    Ok(())
}
