//! A tree with changes in memory. Loads only folders on changed paths.

use std::collections::BTreeMap;

use git2::{ObjectType, Oid, Repository, Tree};

use crate::{
    disk::loose_objects::NewObject,
    repo::{objects, read::EntryKind},
    types::{
        error::GitError,
        limits::{MAX_TREE_BYTES, MAX_TREE_ENTRIES, MIN_TREE_ENTRY_BYTES},
        path::TreePath,
    },
};

/// Maximum stored size of the trees that one commit loads, in bytes. They take about twice as much
/// memory.
const MAX_LOADED_BYTES: u64 = 64 << 20;

/// Bytes of a tree entry besides its name: mode, space, NUL and id.
const ENTRY_BYTES: usize = 6 + 1 + 1 + 20;
pub(super) const FILE_MODE: i32 = 0o100_644;
const DIRECTORY_MODE: i32 = 0o040_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TreeEntry {
    pub(super) mode: i32,
    /// The id; zeros for a changed directory.
    pub(super) id: Oid,
}

impl TreeEntry {
    pub(super) fn kind(self) -> EntryKind {
        EntryKind::of(self.mode)
    }

    fn encode(self, name: &[u8], content: &mut Vec<u8>) {
        content.extend_from_slice(format!("{:o} ", self.mode).as_bytes());
        content.extend_from_slice(name);
        content.push(0);
        content.extend_from_slice(self.id.as_bytes());
    }

    /// Returns the sort key of an entry: git sorts a directory as if its name ended in a slash.
    fn sort_key(self, name: &[u8]) -> impl Iterator<Item = u8> {
        let slash = (self.kind() == EntryKind::Directory).then_some(b'/');
        name.iter().copied().chain(slash)
    }
}

/// Why a path cannot exist: a parent is not a directory.
pub(super) type Obstacle = &'static str;

pub(super) struct Overlay<'repo> {
    repo: &'repo Repository,
    root: Folder<'repo>,
    loaded_bytes: u64,
}

#[derive(Default)]
struct Folder<'repo> {
    base: Option<Tree<'repo>>,
    base_bytes: u64,
    changes: BTreeMap<Vec<u8>, Change<'repo>>,
}

enum Change<'repo> {
    Removed,
    Set(TreeEntry),
    Folder(Folder<'repo>),
}

impl<'repo> Overlay<'repo> {
    pub(super) fn new(repo: &'repo Repository, base: Option<Oid>) -> Result<Self, GitError> {
        let root = base.map(|id| Folder::load(repo, id)).transpose()?.unwrap_or_default();
        let loaded_bytes = root.base_bytes;
        Ok(Self { repo, root, loaded_bytes })
    }

    /// Returns the entry at a path, or the [`Obstacle`] above it.
    pub(super) fn find(&mut self, path: &TreePath) -> Result<Result<Option<TreeEntry>, Obstacle>, GitError> {
        Ok(self.folder(path)?.map(|folder| folder.entry(path.name())))
    }

    /// Sets the entry at a path that [`Overlay::find`] found free of obstacles.
    pub(super) fn set(&mut self, path: &TreePath, entry: TreeEntry) -> Result<(), GitError> {
        self.put(path, Change::Set(entry))
    }

    pub(super) fn remove(&mut self, path: &TreePath) -> Result<(), GitError> {
        self.put(path, Change::Removed)
    }

    fn put(&mut self, path: &TreePath, change: Change<'repo>) -> Result<(), GitError> {
        let folder = self.folder(path)?.map_err(|obstacle| GitError::Internal(format!("`{path}` {obstacle}")))?;
        folder.changes.insert(path.name().to_vec(), change);
        Ok(())
    }

    /// Returns the parent folder of a path, creating it if missing.
    fn folder(&mut self, path: &TreePath) -> Result<Result<&mut Folder<'repo>, Obstacle>, GitError> {
        let repo = self.repo;
        let mut folder = &mut self.root;
        let parents = path.components().count().saturating_sub(1);
        for part in path.components().take(parents) {
            if !matches!(folder.changes.get(part), Some(Change::Folder(_))) {
                let below = match folder.entry(part).map(|entry| (entry.kind(), entry.id)) {
                    None => Folder::default(),
                    Some((EntryKind::Directory, id)) => {
                        let below = Folder::load(repo, id)?;
                        self.loaded_bytes += below.base_bytes;
                        if self.loaded_bytes > MAX_LOADED_BYTES {
                            let what = "the total size of the changed folders";
                            return Err(GitError::TooLarge { what, limit: MAX_LOADED_BYTES });
                        }
                        below
                    }
                    Some((EntryKind::File, _)) => return Ok(Err("is below a file")),
                    Some((EntryKind::Symlink, _)) => return Ok(Err("is below a symbolic link")),
                    Some((EntryKind::Submodule, _)) => return Ok(Err("is inside a submodule")),
                };
                folder.changes.insert(part.to_vec(), Change::Folder(below));
            }
            folder = match folder.changes.get_mut(part) {
                Some(Change::Folder(below)) => below,
                Some(Change::Removed | Change::Set(_)) | None => {
                    return Err(GitError::Internal("a folder that was just created is missing".to_owned()));
                }
            };
        }
        Ok(Ok(folder))
    }

    /// Appends the changed trees to `objects` and returns the root's id.
    pub(super) fn build(&self, objects: &mut Vec<NewObject>) -> Result<Oid, GitError> {
        match self.root.build(objects)? {
            Some(root) => Ok(root),
            None => push_tree(objects, Vec::new()),
        }
    }
}

impl<'repo> Folder<'repo> {
    fn load(repo: &'repo Repository, id: Oid) -> Result<Self, GitError> {
        let (base, base_bytes) = objects::sized_tree(repo, id)?;
        Ok(Self { base: Some(base), base_bytes, changes: BTreeMap::new() })
    }

    /// Checks the limits of trees, as if the changes removed nothing.
    fn check_size(&self) -> Result<(), GitError> {
        let added = || self.changes.iter().filter(|(_, change)| !matches!(change, Change::Removed));
        let bytes: u64 = added().map(|(name, _)| name.len() as u64 + MIN_TREE_ENTRY_BYTES).sum();
        if self.base_bytes + bytes > MAX_TREE_BYTES {
            return Err(GitError::TooLarge { what: "the folder", limit: MAX_TREE_BYTES });
        }
        let entries = self.base.as_ref().map_or(0, Tree::len) + added().count();
        if entries > MAX_TREE_ENTRIES {
            let what = "the number of entries in the folder";
            return Err(GitError::TooLarge { what, limit: MAX_TREE_ENTRIES as u64 });
        }
        Ok(())
    }

    fn entry(&self, name: &[u8]) -> Option<TreeEntry> {
        match self.changes.get(name) {
            Some(Change::Removed) => None,
            Some(Change::Set(entry)) => Some(*entry),
            Some(Change::Folder(folder)) => {
                (!folder.is_empty()).then_some(TreeEntry { mode: DIRECTORY_MODE, id: Oid::ZERO_SHA1 })
            }
            None => {
                let entry = self.base.as_ref()?.get_name_bytes(name)?;
                Some(TreeEntry { mode: objects::entry_mode(&entry), id: entry.id() })
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

    /// Appends the tree and its subtrees to `objects` and returns its id; `None` if it is empty,
    /// because git stores no empty trees as entries.
    fn build(&self, objects: &mut Vec<NewObject>) -> Result<Option<Oid>, GitError> {
        if let (Some(base), true) = (&self.base, self.changes.is_empty()) {
            return Ok(Some(base.id()));
        }
        self.check_size()?;
        let mut changed = Vec::with_capacity(self.changes.len());
        for (name, change) in &self.changes {
            let entry = match change {
                Change::Removed => None,
                Change::Set(entry) => Some(*entry),
                Change::Folder(folder) => folder.build(objects)?.map(|id| TreeEntry { mode: DIRECTORY_MODE, id }),
            };
            changed.extend(entry.map(|entry| (name.as_slice(), entry)));
        }
        let content = self.merge(changed);
        if content.is_empty() { Ok(None) } else { push_tree(objects, content).map(Some) }
    }

    /// Merges the unchanged entries of the base with the changes, in git's order.
    fn merge(&self, mut changed: Vec<(&[u8], TreeEntry)>) -> Vec<u8> {
        changed.sort_by(|(one, entry), (two, other)| entry.sort_key(one).cmp(other.sort_key(two)));
        let added: usize = changed.iter().map(|(name, _)| name.len() + ENTRY_BYTES).sum();
        let mut content = Vec::with_capacity(usize::try_from(self.base_bytes).unwrap_or_default() + added);
        let mut changed = changed.into_iter().peekable();
        for kept in self.base.iter().flatten().filter(|entry| !self.changes.contains_key(entry.name_bytes())) {
            let (name, entry) = (kept.name_bytes(), TreeEntry { mode: kept.filemode_raw(), id: kept.id() });
            while let Some((before, new)) = changed.next_if(|(new, key)| key.sort_key(new).lt(entry.sort_key(name))) {
                new.encode(before, &mut content);
            }
            entry.encode(name, &mut content);
        }
        changed.for_each(|(name, new)| new.encode(name, &mut content));
        content
    }
}

fn push_tree(objects: &mut Vec<NewObject>, content: Vec<u8>) -> Result<Oid, GitError> {
    let tree = NewObject::new(ObjectType::Tree, content)?;
    let id = tree.id();
    objects.push(tree);
    Ok(id)
}
