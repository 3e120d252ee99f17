//! One write lock per repository, in memory for as long as a task holds it or waits for it.

use std::time::Duration;

use ferrite_proto::id::RepositoryId;
use git_store::types::{error::GitError, weak_map::WeakMap};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

/// Longest wait for the lock of a repository.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);

/// Write locks by repository. A lock is dropped with its last guard or waiter.
#[derive(Debug, Default)]
pub(super) struct Locks(WeakMap<RepositoryId, AsyncMutex<()>>);

impl Locks {
    /// Waits for the write lock of a repository, at most 30 seconds.
    ///
    /// # Errors
    /// `Overloaded` when the lock does not become free in time.
    pub(super) async fn acquire(&self, id: RepositoryId) -> Result<OwnedMutexGuard<()>, GitError> {
        let lock = self.0.get_or_insert_with(id, AsyncMutex::default);
        tokio::time::timeout(LOCK_TIMEOUT, lock.lock_owned()).await.map_err(|_| GitError::Overloaded)
    }
}
