//! Walks history for all entries of a folder at once.
//!
//! Each commit is responsible for the entries that it has as the first commit had them. It hands
//! each of them to its first parent that has the same one, as `git log` follows a path. Those that
//! no parent has were changed by the commit. So a commit is read once for all entries, and a folder
//! that a commit left alone costs nothing but its id.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
};

use git2::{Oid, Repository};

use super::{
    super::{
        commit::time_and_parents,
        deadline::Deadline,
        trail::{TREE_MODE, Trail, TrailReader},
    },
    EntryCommit,
};
use crate::{
    repo::objects,
    types::{error::GitError, path::TreePath},
};

pub(super) struct EntryWalk<'a> {
    repo: &'a Repository,
    trails: TrailReader<'a>,
    entries: &'a mut [EntryCommit],
    /// Newest first, then in the order in which they were found.
    queue: BinaryHeap<(i64, Reverse<u64>, Oid)>,
    /// Of each queued commit. An entry is in one of them at most.
    pending: HashMap<Oid, Pending>,
    found: u64,
    visits_left: usize,
}

/// The entries that a commit is responsible for.
struct Pending {
    /// The way to its folder.
    trail: Trail,
    /// Indexes of entries.
    entries: Vec<usize>,
}

impl<'a> EntryWalk<'a> {
    pub(super) fn new(
        repo: &'a Repository,
        folder: &TreePath,
        deadline: &'a Deadline,
        entries: &'a mut [EntryCommit],
        visits: usize,
    ) -> Self {
        let trails = TrailReader::new(repo, folder, deadline);
        let (queue, pending) = (BinaryHeap::new(), HashMap::new());
        Self { repo, trails, entries, queue, pending, found: 0, visits_left: visits }
    }

    /// Walks from the commit whose entries these are, until all are decided or no visits are left.
    pub(super) fn run(&mut self, commit: Oid) -> Result<(), GitError> {
        let trail = self.trails.read(commit, &Trail::new())?;
        self.push(commit, trail, (0..self.entries.len()).collect())?;
        while let Some((.., id)) = self.queue.pop() {
            let Some(pending) = self.pending.remove(&id) else { continue };
            if !self.visit(id, pending)? {
                break;
            }
        }
        Ok(())
    }

    fn push(&mut self, id: Oid, trail: Trail, mut entries: Vec<usize>) -> Result<(), GitError> {
        if entries.is_empty() {
            return Ok(());
        }
        if let Some(pending) = self.pending.get_mut(&id) {
            pending.entries.append(&mut entries);
            return Ok(());
        }
        let (time, _) = time_and_parents(self.repo, id)?;
        self.found += 1;
        self.queue.push((time, Reverse(self.found), id));
        self.pending.insert(id, Pending { trail, entries });
        Ok(())
    }

    /// Hands the entries of a commit to its parents, and decides the rest. Returns whether visits
    /// are left.
    fn visit(&mut self, id: Oid, pending: Pending) -> Result<bool, GitError> {
        let Pending { trail, mut entries } = pending;
        let (_, parents) = time_and_parents(self.repo, id)?;
        for parent in parents {
            if entries.is_empty() {
                return Ok(true);
            }
            let Some(left) = self.visits_left.checked_sub(1) else { return Ok(false) };
            self.visits_left = left;
            let before = self.trails.read(parent, &trail)?;
            let same = self.take_same(&trail, &before, &mut entries)?;
            self.push(parent, before, same)?;
        }
        for entry in entries {
            self.entries[entry].last_commit = Some(id);
        }
        Ok(true)
    }

    /// Removes and returns the entries that the folder at `before` has, too.
    fn take_same(&self, trail: &Trail, before: &Trail, entries: &mut Vec<usize>) -> Result<Vec<usize>, GitError> {
        let target = self.trails.target(before);
        if target == self.trails.target(trail) {
            return Ok(std::mem::take(entries));
        }
        let Some((TREE_MODE, id)) = target else { return Ok(Vec::new()) };
        let tree = match objects::find_tree(self.repo, id) {
            Err(error) if error.is_unreadable() => return Ok(Vec::new()),
            tree => tree?,
        };
        let is_same = |entry: &usize| {
            let entry = &self.entries[*entry];
            let found = tree.get_name_bytes(&entry.name);
            found.is_some_and(|found| (objects::entry_mode(&found), found.id()) == (entry.mode, entry.id))
        };
        let (same, rest) = std::mem::take(entries).into_iter().partition(is_same);
        *entries = rest;
        Ok(same)
    }
}
