//! A tree with changes on top, kept in memory until it is written. Only the folders on changed paths are loaded. Not here:
//! which changes are allowed (`files`).

use std::collections::BTreeMap;

use git2::{Oid, Repository, Tree};

use crate::{
    repo::read::EntryKind,
    types::{error::GitError, path::TreePath},
};

/// Mode of a regular file.
pub(super) const FILE_MODE: i32 = 0o100_644;
const DIRECTORY_MODE: i32 = 0o040_000;

/// Mode and id of the entry at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TreeEntry {
    pub(super) mode: i32,
    /// The id; zeros for a directory with changes.
    pub(super) id: Oid,
}

impl TreeEntry {
    pub(super) fn kind(self) -> EntryKind {
        EntryKind::of(self.mode)
    }
}

/// The reason why a path cannot exist: a component above it is not a directory.
pub(super) type Obstacle = &'static str;

/// The tree and its changes.
pub(super) struct Overlay<'repo> {
    repo: &'repo Repository,
    root: Folder<'repo>,
}

#[derive(Default)]
struct Folder<'repo> {
    base: Option<Tree<'repo>>,
    changes: BTreeMap<Vec<u8>, Change<'repo>>,
}

enum Change<'repo> {
    Removed,
    Set(TreeEntry),
    Folder(Folder<'repo>),
}

impl<'repo> Overlay<'repo> {
    /// Creates an overlay on a root tree, or on an empty one.
    pub(super) fn new(repo: &'repo Repository, base: Option<Tree<'repo>>) -> Self {
        Self { repo, root: Folder { base, changes: BTreeMap::new() } }
    }

    /// Returns the current entry at a path, or the [`Obstacle`] above it.
    pub(super) fn find(&mut self, path: &TreePath) -> Result<Result<Option<TreeEntry>, Obstacle>, GitError> {
        Ok(self.folder(path)?.map(|folder| folder.entry(path.name())))
    }

    /// Sets the entry at a path, which [`Overlay::find`] must have found free of obstacles.
    pub(super) fn set(&mut self, path: &TreePath, entry: TreeEntry) -> Result<(), GitError> {
        self.put(path, Change::Set(entry))
    }

    /// Removes the entry at a path.
    pub(super) fn remove(&mut self, path: &TreePath) -> Result<(), GitError> {
        self.put(path, Change::Removed)
    }

    fn put(&mut self, path: &TreePath, change: Change<'repo>) -> Result<(), GitError> {
        let folder = self.folder(path)?.map_err(|obstacle| GitError::Internal(format!("`{path}` {obstacle}")))?;
        folder.changes.insert(path.name().to_vec(), change);
        Ok(())
    }

    /// Returns the folder of a path; a missing one is created empty.
    fn folder(&mut self, path: &TreePath) -> Result<Result<&mut Folder<'repo>, Obstacle>, GitError> {
        let repo = self.repo;
        let mut folder = &mut self.root;
        let parents = path.components().count().saturating_sub(1);
        for part in path.components().take(parents) {
            if !matches!(folder.changes.get(part), Some(Change::Folder(_))) {
                let below = match folder.entry(part).map(|entry| (entry.kind(), entry.id)) {
                    None => Folder::default(),
                    Some((EntryKind::Directory, id)) => {
                        Folder { base: Some(repo.find_tree(id)?), changes: BTreeMap::new() }
                    }
                    Some((EntryKind::File, _)) => return Ok(Err("leads through a file")),
                    Some((EntryKind::Symlink, _)) => return Ok(Err("leads through a symbolic link")),
                    Some((EntryKind::Submodule, _)) => return Ok(Err("leads into a submodule")),
                };
                folder.changes.insert(part.to_vec(), Change::Folder(below));
            }
            folder = match folder.changes.get_mut(part) {
                Some(Change::Folder(below)) => below,
                Some(Change::Removed | Change::Set(_)) | None => {
                    return Err(GitError::Internal("a folder that was just made is not there".to_owned()));
                }
            };
        }
        Ok(Ok(folder))
    }

    /// Writes the changed trees, appends their ids to `written` and returns the root's id.
    pub(super) fn write(&self, written: &mut Vec<Oid>) -> Result<Oid, GitError> {
        if let Some(root) = self.root.write(self.repo, written)? {
            return Ok(root);
        }
        let root = self.repo.treebuilder(None)?.write()?;
        written.push(root);
        Ok(root)
    }
}

impl Folder<'_> {
    fn entry(&self, name: &[u8]) -> Option<TreeEntry> {
        match self.changes.get(name) {
            Some(Change::Removed) => None,
            Some(Change::Set(entry)) => Some(*entry),
            Some(Change::Folder(folder)) => {
                (!folder.is_empty()).then_some(TreeEntry { mode: DIRECTORY_MODE, id: Oid::ZERO_SHA1 })
            }
            None => {
                let entry = self.base.as_ref()?.get_name_bytes(name)?;
                Some(TreeEntry { mode: entry.filemode(), id: entry.id() })
            }
        }
    }

    fn is_empty(&self) -> bool {
        let is_live = |change: &Change<'_>| match change {
            Change::Removed => false,
            Change::Set(_) => true,
            Change::Folder(folder) => !folder.is_empty(),
        };
        if self.changes.values().any(is_live) {
            return false;
        }
        let Some(base) = &self.base else { return true };
        self.changes.keys().filter(|name| base.get_name_bytes(name).is_some()).count() == base.len()
    }

    /// Writes the tree and returns its id; `None` for an empty tree, which git does not store as an entry.
    fn write(&self, repo: &Repository, written: &mut Vec<Oid>) -> Result<Option<Oid>, GitError> {
        if let (Some(base), true) = (&self.base, self.changes.is_empty()) {
            return Ok(Some(base.id()));
        }
        let mut builder = repo.treebuilder(self.base.as_ref())?;
        for (name, change) in &self.changes {
            let entry = match change {
                Change::Removed => None,
                Change::Set(entry) => Some(*entry),
                Change::Folder(folder) => folder.write(repo, written)?.map(|id| TreeEntry { mode: DIRECTORY_MODE, id }),
            };
            match entry {
                Some(entry) => {
                    builder.insert(name.as_slice(), entry.id, entry.mode)?;
                }
                None if builder.get(name.as_slice())?.is_some() => builder.remove(name.as_slice())?,
                None => {}
            }
        }
        if builder.is_empty() {
            return Ok(None);
        }
        let id = builder.write()?;
        written.push(id);
        Ok(Some(id))
    }
}
