//! Compares two trees: paths of files, links and submodules that were added, removed or changed. A
//! rename is a removal and an addition.

use std::collections::BTreeMap;

use git2::{Oid, Repository, Tree, TreeEntry};

use super::deadline::Deadline;
use crate::{repo::objects, types::error::GitError};

/// Deeper folders count as cut. Each level takes a frame of the worker's stack.
const MAX_TREE_DEPTH: usize = 256;
/// Bytes of a path in a message besides its text.
const PATH_OVERHEAD_BYTES: usize = 4;
const TREE_MODE: i32 = 0o040_000;

/// The paths that differ between two trees, each list in git's order. Invalid UTF-8 is replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangedPaths {
    /// Paths only in the new tree.
    pub added: Vec<String>,
    /// Paths only in the old tree.
    pub removed: Vec<String>,
    /// Paths whose content or mode changed.
    pub modified: Vec<String>,
    /// Whether there are more.
    pub is_cut: bool,
}

pub(super) struct TreeComparison<'a> {
    pub(super) repo: &'a Repository,
    pub(super) max_paths: usize,
    pub(super) bytes_left: &'a mut usize,
    pub(super) entries_left: &'a mut usize,
    pub(super) deadline: &'a Deadline,
    pub(super) paths: ChangedPaths,
}

/// Mode and id of an entry.
type Entry = (i32, Oid);
/// Entries that differ, by name: old and new.
type Differences = BTreeMap<Vec<u8>, (Option<Entry>, Option<Entry>)>;

impl TreeComparison<'_> {
    /// Compares the trees of two commits; `None` is the empty tree. Unreadable trees count as cut.
    pub(super) fn compare_commits(&mut self, old: Option<Oid>, new: Oid) -> Result<(), GitError> {
        match self.try_compare_commits(old, new) {
            Err(error) if error.is_unreadable() => {
                self.paths.is_cut = true;
                Ok(())
            }
            compared => compared,
        }
    }

    fn try_compare_commits(&mut self, old: Option<Oid>, new: Oid) -> Result<(), GitError> {
        let old = old.map(|commit| objects::tree_id(self.repo, commit)).transpose()?;
        let new = objects::tree_id(self.repo, new)?;
        if old == Some(new) { Ok(()) } else { self.trees(&[], old, Some(new), 0) }
    }

    fn trees(&mut self, folder: &[u8], old: Option<Oid>, new: Option<Oid>, depth: usize) -> Result<(), GitError> {
        self.deadline.check()?;
        if depth > MAX_TREE_DEPTH {
            self.paths.is_cut = true;
            return Ok(());
        }
        for (name, (old, new)) in self.differing(old, new)? {
            if self.is_full(old, new) {
                self.paths.is_cut = true;
                continue;
            }
            let path = if folder.is_empty() { name } else { [folder, &name].join(&b'/') };
            let is_tree = |entry: &Entry| entry.0 == TREE_MODE;
            let (old_tree, new_tree) = (old.filter(is_tree), new.filter(is_tree));
            if old_tree.is_some() || new_tree.is_some() {
                self.trees(&path, old_tree.map(|(_, id)| id), new_tree.map(|(_, id)| id), depth + 1)?;
            }
            let list = match (old.filter(|entry| !is_tree(entry)), new.filter(|entry| !is_tree(entry))) {
                (Some(_), Some(_)) => &mut self.paths.modified,
                (Some(_), None) => &mut self.paths.removed,
                (None, Some(_)) => &mut self.paths.added,
                (None, None) => continue,
            };
            let path = String::from_utf8_lossy(&path).into_owned();
            match self.bytes_left.checked_sub(path.len() + PATH_OVERHEAD_BYTES) {
                Some(left) if list.len() < self.max_paths => {
                    *self.bytes_left = left;
                    list.push(path);
                }
                _ => self.paths.is_cut = true,
            }
        }
        Ok(())
    }

    /// Returns whether every list that a difference could go to is full.
    fn is_full(&self, old: Option<Entry>, new: Option<Entry>) -> bool {
        let [added, removed, modified] =
            [&self.paths.added, &self.paths.removed, &self.paths.modified].map(|list| list.len() >= self.max_paths);
        match (old, new) {
            _ if *self.bytes_left <= PATH_OVERHEAD_BYTES || *self.entries_left == 0 => true,
            (None, _) => added,
            (_, None) => removed,
            _ => added && removed && modified,
        }
    }

    fn differing(&mut self, old: Option<Oid>, new: Option<Oid>) -> Result<Differences, GitError> {
        let entry = |entry: &TreeEntry<'_>| (objects::entry_mode(entry), entry.id());
        let old = old.map(|id| objects::find_tree(self.repo, id)).transpose()?;
        let new = new.map(|id| objects::find_tree(self.repo, id)).transpose()?;
        let count = old.as_ref().map_or(0, Tree::len) + new.as_ref().map_or(0, Tree::len);
        *self.entries_left = self.entries_left.saturating_sub(count);
        let mut found = Differences::new();
        for before in old.iter().flatten() {
            let name = before.name_bytes();
            let after = new.as_ref().and_then(|tree| tree.get_name_bytes(name)).map(|after| entry(&after));
            if after != Some(entry(&before)) {
                found.insert(name.to_vec(), (Some(entry(&before)), after));
            }
        }
        for after in new.iter().flatten() {
            let name = after.name_bytes();
            if old.as_ref().is_none_or(|tree| tree.get_name_bytes(name).is_none()) {
                found.insert(name.to_vec(), (None, Some(entry(&after))));
            }
        }
        Ok(found)
    }
}
