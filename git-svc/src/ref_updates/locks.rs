//! One lock per repository, kept for as long as somebody wants it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use ferrite_proto::id::RepositoryId;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use crate::types::error::GitError;

/// How long a writer waits for those before it.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);
/// Locks that nobody holds are looked for when there are this many.
const PRUNE_AT_LOCKS: usize = 1024;

/// The locks.
#[derive(Debug, Default)]
pub(super) struct Locks(Mutex<HashMap<RepositoryId, Weak<AsyncMutex<()>>>>);

impl Locks {
    /// Takes the lock of a repository.
    ///
    /// Errors: `Overloaded` when those before take too long.
    pub(super) async fn acquire(&self, id: RepositoryId) -> Result<OwnedMutexGuard<()>, GitError> {
        let lock = self.of(id);
        tokio::time::timeout(LOCK_TIMEOUT, lock.lock_owned()).await.map_err(|_| GitError::Overloaded)
    }

    fn of(&self, id: RepositoryId) -> Arc<AsyncMutex<()>> {
        // Nothing panics while it is held.
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
