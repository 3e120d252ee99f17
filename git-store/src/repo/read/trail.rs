//! The objects on the way from the root tree of a commit to a path.

use git2::{Oid, Repository};

use super::deadline::Deadline;
use crate::{
    repo::objects,
    types::{error::GitError, path::TreePath},
};

/// The mode of a folder.
pub(super) const TREE_MODE: i32 = 0o040_000;

/// Mode and id of each object from the root tree to the path; shorter if the path does not exist.
pub(super) type Trail = Vec<(i32, Oid)>;

/// Reads the trails of commits to one path.
pub(super) struct TrailReader<'repo> {
    repo: &'repo Repository,
    parts: Vec<Vec<u8>>,
    deadline: &'repo Deadline,
}

impl<'repo> TrailReader<'repo> {
    pub(super) fn new(repo: &'repo Repository, path: &TreePath, deadline: &'repo Deadline) -> Self {
        Self { repo, parts: path.components().map(<[u8]>::to_vec).collect(), deadline }
    }

    /// Returns what is at the path.
    pub(super) fn target(&self, trail: &Trail) -> Option<(i32, Oid)> {
        // Index zero is the root tree.
        trail.get(self.parts.len()).copied()
    }

    /// Returns the trail of a commit. From the first object that it shares with `known`, a
    /// neighbour's trail, the rest is copied. An unreadable tree ends it.
    pub(super) fn read(&self, commit: Oid, known: &Trail) -> Result<Trail, GitError> {
        self.deadline.check()?;
        let root = match objects::tree_id(self.repo, commit) {
            Err(error) if error.is_unreadable() => return Ok(Trail::new()),
            root => root?,
        };
        let mut trail = vec![(TREE_MODE, root)];
        for (depth, part) in self.parts.iter().enumerate() {
            if trail.last() == known.get(depth) {
                trail.extend_from_slice(&known[depth + 1..]);
                return Ok(trail);
            }
            let (mode, id) = trail[depth];
            if mode != TREE_MODE {
                break;
            }
            let tree = match objects::find_tree(self.repo, id) {
                Err(error) if error.is_unreadable() => break,
                tree => tree?,
            };
            let Some(entry) = tree.get_name_bytes(part) else { break };
            trail.push((objects::entry_mode(&entry), entry.id()));
        }
        Ok(trail)
    }
}
