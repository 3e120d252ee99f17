//! Repositories that git processes build step by step in `incoming/` before they are published.

use std::{
    io,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use ferrite_proto::id::RepositoryId;
use uuid::Uuid;

use super::{RepositoryStore, lay_out, remove};
use crate::{
    disk::{
        durable::sync_tree,
        full::{classify_disk_full, require_free_space},
    },
    types::{error::GitError, name::BranchName},
};

/// Attempts to remove a folder in which a surviving git process may still create files.
const MAX_REMOVALS: usize = 5;
const REMOVAL_INTERVAL: Duration = Duration::from_millis(20);

/// Removes what a killed process left in `incoming/`.
pub(super) fn remove_left_behind(path: &Path) -> Result<(), GitError> {
    for _ in 1..MAX_REMOVALS {
        match remove(path) {
            // git stops once the folders it writes to are gone.
            Err(GitError::Io { source, .. }) if source.kind() == io::ErrorKind::DirectoryNotEmpty => {
                thread::sleep(REMOVAL_INTERVAL);
            }
            outcome => return outcome,
        }
    }
    remove(path)
}

impl RepositoryStore {
    /// Creates an empty repository in `incoming/` whose HEAD points to `branch`, and returns its
    /// folder. Blocking.
    ///
    /// The caller ends with [`RepositoryStore::publish_built`] or
    /// [`RepositoryStore::discard_built`]. The next start removes what a killed process left.
    ///
    /// # Errors
    /// `StoreFull` unless more than `bytes` are free.
    pub fn begin_build(&self, id: RepositoryId, branch: &BranchName, bytes: u64) -> Result<PathBuf, GitError> {
        let folder = self.root.join("incoming");
        require_free_space(&folder, bytes)?;
        let incoming = folder.join(format!("{id}-{}", Uuid::new_v4()));
        match lay_out(&incoming, branch) {
            Ok(()) => Ok(incoming),
            Err(error) => {
                remove(&incoming)?;
                Err(error)
            }
        }
    }

    /// Syncs a repository in `incoming/` and publishes it. An existing one stays. On an error, the
    /// folder is removed. Blocking.
    pub fn publish_built(&self, id: RepositoryId, incoming: &Path) -> Result<(), GitError> {
        let published = sync_tree(incoming).and_then(|()| self.publish(id, incoming));
        let published = published.map_err(|error| classify_disk_full(error, incoming));
        if !matches!(published, Ok(true)) {
            remove(incoming)?;
        }
        published.map(drop)
    }

    /// Removes a repository in `incoming/` and returns `error`, or `StoreFull` if the disk is full.
    /// Blocking.
    pub fn discard_built(&self, incoming: &Path, error: GitError) -> GitError {
        // Probe before space is freed.
        let error = classify_disk_full(error, incoming);
        if let Err(failure) = remove(incoming) {
            tracing::warn!(error = %failure, "cannot remove an unfinished repository; the next start removes it");
        }
        error
    }
}
