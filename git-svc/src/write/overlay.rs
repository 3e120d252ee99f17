//! A tree with changes on top, in memory until it is written: its cost follows the folders on the changed paths.

use std::collections::BTreeMap;

use git2::{Oid, Repository, Tree};

use crate::{error::GitError, path::TreePath, read::EntryKind};

pub(super) const FILE_MODE: i32 = 0o100_644;
const DIRECTORY_MODE: i32 = 0o040_000;

/// What stands at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Leaf {
    pub(super) mode: i32,
    /// Zeros for a directory that was changed.
    pub(super) id: Oid,
}

impl Leaf {
    pub(super) fn kind(self) -> EntryKind {
        EntryKind::of(self.mode)
    }
}

/// Why nothing can be looked for at a path: what is on the way there.
pub(super) type Obstacle = &'static str;

/// The whole tree.
pub(super) struct Overlay<'repo> {
    repo: &'repo Repository,
    root: Folder<'repo>,
}

#[derive(Default)]
struct Folder<'repo> {
    base: Option<Tree<'repo>>,
    changes: BTreeMap<Vec<u8>, Slot<'repo>>,
}

enum Slot<'repo> {
    Gone,
    Leaf(Leaf),
    Folder(Folder<'repo>),
}

impl<'repo> Overlay<'repo> {
    /// On top of a root tree, or of nothing.
    pub(super) fn new(repo: &'repo Repository, base: Option<Tree<'repo>>) -> Self {
        Self { repo, root: Folder { base, changes: BTreeMap::new() } }
    }

    /// What is at a path now; the inner error says what is in the way.
    pub(super) fn find(&mut self, path: &TreePath) -> Result<Result<Option<Leaf>, Obstacle>, GitError> {
        Ok(self.folder(path)?.map(|folder| folder.look(path.name())))
    }

    /// Puts something at a path. The caller has seen what [`Overlay::find`] says about it.
    pub(super) fn set(&mut self, path: &TreePath, leaf: Leaf) -> Result<(), GitError> {
        self.put(path, Slot::Leaf(leaf))
    }

    /// Takes away what is at a path.
    pub(super) fn remove(&mut self, path: &TreePath) -> Result<(), GitError> {
        self.put(path, Slot::Gone)
    }

    fn put(&mut self, path: &TreePath, slot: Slot<'repo>) -> Result<(), GitError> {
        let folder = self.folder(path)?.map_err(|obstacle| GitError::Internal(format!("`{path}` {obstacle}")))?;
        folder.changes.insert(path.name().to_vec(), slot);
        Ok(())
    }

    /// The folder that a path is in; one that is not there is empty.
    fn folder(&mut self, path: &TreePath) -> Result<Result<&mut Folder<'repo>, Obstacle>, GitError> {
        let repo = self.repo;
        let mut folder = &mut self.root;
        let parents = path.components().count().saturating_sub(1);
        for part in path.components().take(parents) {
            if !matches!(folder.changes.get(part), Some(Slot::Folder(_))) {
                let below = match folder.look(part).map(|leaf| (leaf.kind(), leaf.id)) {
                    None => Folder::default(),
                    Some((EntryKind::Directory, id)) => {
                        Folder { base: Some(repo.find_tree(id)?), changes: BTreeMap::new() }
                    }
                    Some((EntryKind::File, _)) => return Ok(Err("leads through a file")),
                    Some((EntryKind::Symlink, _)) => return Ok(Err("leads through a symbolic link")),
                    Some((EntryKind::Submodule, _)) => return Ok(Err("leads into a submodule")),
                };
                folder.changes.insert(part.to_vec(), Slot::Folder(below));
            }
            folder = match folder.changes.get_mut(part) {
                Some(Slot::Folder(below)) => below,
                Some(Slot::Gone | Slot::Leaf(_)) | None => {
                    return Err(GitError::Internal("a folder that was just made is not there".to_owned()));
                }
            };
        }
        Ok(Ok(folder))
    }

    /// Writes the trees that changed and returns the root's id; each that was written is appended to `written`.
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
    fn look(&self, name: &[u8]) -> Option<Leaf> {
        match self.changes.get(name) {
            Some(Slot::Gone) => None,
            Some(Slot::Leaf(leaf)) => Some(*leaf),
            Some(Slot::Folder(folder)) => {
                (!folder.is_empty()).then_some(Leaf { mode: DIRECTORY_MODE, id: Oid::ZERO_SHA1 })
            }
            None => {
                let entry = self.base.as_ref()?.get_name_bytes(name)?;
                Some(Leaf { mode: entry.filemode(), id: entry.id() })
            }
        }
    }

    fn is_empty(&self) -> bool {
        let is_live = |slot: &Slot<'_>| match slot {
            Slot::Gone => false,
            Slot::Leaf(_) => true,
            Slot::Folder(folder) => !folder.is_empty(),
        };
        if self.changes.values().any(is_live) {
            return false;
        }
        let Some(base) = &self.base else { return true };
        self.changes.keys().filter(|name| base.get_name_bytes(name).is_some()).count() == base.len()
    }

    /// The id of the tree; `None` for an empty one, which git does not keep.
    fn write(&self, repo: &Repository, written: &mut Vec<Oid>) -> Result<Option<Oid>, GitError> {
        if let (Some(base), true) = (&self.base, self.changes.is_empty()) {
            return Ok(Some(base.id()));
        }
        let mut builder = repo.treebuilder(self.base.as_ref())?;
        for (name, slot) in &self.changes {
            let leaf = match slot {
                Slot::Gone => None,
                Slot::Leaf(leaf) => Some(*leaf),
                Slot::Folder(folder) => folder.write(repo, written)?.map(|id| Leaf { mode: DIRECTORY_MODE, id }),
            };
            match leaf {
                Some(leaf) => {
                    builder.insert(name.as_slice(), leaf.id, leaf.mode)?;
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
