//! One write lock per repository, in memory for as long as a task holds it or waits for it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use ferrite_proto::id::RepositoryId;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use crate::types::error::GitError;

/// Longest wait for the lock of a repository.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);
/// Unused locks are pruned once the map has this many keys.
const PRUNE_AT_LOCKS: usize = 1024;

/// Write locks by repository. Weak: a lock is dropped with its last guard or waiter.
#[derive(Debug, Default)]
pub(super) struct Locks(Mutex<HashMap<RepositoryId, Weak<AsyncMutex<()>>>>);

impl Locks {
    /// Waits for the write lock of a repository, at most 30 seconds.
    ///
    /// # Errors
    /// `Overloaded` when the lock does not become free in time.
    pub(super) async fn acquire(&self, id: RepositoryId) -> Result<OwnedMutexGuard<()>, GitError> {
        let lock = self.of(id);
        tokio::time::timeout(LOCK_TIMEOUT, lock.lock_owned()).await.map_err(|_| GitError::Overloaded)
    }

    fn of(&self, id: RepositoryId) -> Arc<AsyncMutex<()>> {
        // No code panics while it holds this lock.
        let mut locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lock) = locks.get(&id).and_then(Weak::upgrade) {
            return lock;
        }
        if locks.len() >= PRUNE_AT_LOCKS {
            locks.retain(|_, lock| lock.strong_count() > 0);
        }
        let lock = Arc::new(AsyncMutex::new(()));
        locks.insert(id, Arc::downgrade(&lock));
        lock
    }
}
