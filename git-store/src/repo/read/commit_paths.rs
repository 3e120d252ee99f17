//! Remembers what follows from a path in a commit, such as the last commits of a folder: the same
//! pages are read again and again. Commits do not change, so only results expire for which the time
//! did not suffice.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use ferrite_proto::id::RepositoryId;
use git2::Oid;
use moka::{Expiry, sync::Cache};

use crate::types::path::TreePath;

/// Of each cache.
const MAX_CACHE_BYTES: u64 = 32 << 20;
/// Bytes of an entry besides its path and what its result counts.
const OVERHEAD_BYTES: usize = 300;
/// Time after which an incomplete result is looked for again: the machine may have been busy.
const INCOMPLETE_LIFETIME: Duration = Duration::from_secs(60);

/// A path in a commit.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CommitPath {
    /// The repository.
    pub repository: RepositoryId,
    /// The commit.
    pub commit: Oid,
    /// The path of the folder or file.
    pub path: TreePath,
}

/// A result that can be kept.
pub trait Kept: Send + Sync + 'static {
    /// Its size in memory.
    fn bytes(&self) -> usize;

    /// Whether another attempt would find the same.
    fn is_complete(&self) -> bool {
        true
    }
}

/// The cached results. Clones share the cache.
#[derive(Debug)]
pub struct CommitPathCache<V: Kept>(Cache<CommitPath, Arc<V>>);

struct Lifetime;

impl<V: Kept> Expiry<CommitPath, Arc<V>> for Lifetime {
    fn expire_after_create(&self, _: &CommitPath, found: &Arc<V>, _: Instant) -> Option<Duration> {
        (!found.is_complete()).then_some(INCOMPLETE_LIFETIME)
    }
}

impl<V: Kept> Clone for CommitPathCache<V> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<V: Kept> Default for CommitPathCache<V> {
    fn default() -> Self {
        let weigh = |key: &CommitPath, found: &Arc<V>| {
            u32::try_from(OVERHEAD_BYTES + key.path.as_bytes().len() + found.bytes()).unwrap_or(u32::MAX)
        };
        let cache = Cache::builder().max_capacity(MAX_CACHE_BYTES).weigher(weigh).expire_after(Lifetime);
        Self(cache.support_invalidation_closures().build())
    }
}

impl<V: Kept> CommitPathCache<V> {
    /// Drops the entries of a deleted repository.
    pub fn forget(&self, repository: RepositoryId) {
        if let Err(error) = self.0.invalidate_entries_if(move |key, _| key.repository == repository) {
            tracing::warn!(repo.id = %repository, %error, "cannot drop the cached results of a repository");
        }
    }

    /// Returns a cached result.
    pub fn find(&self, key: &CommitPath) -> Option<Arc<V>> {
        self.0.get(key)
    }

    /// Caches a result.
    pub fn keep(&self, key: CommitPath, found: &Arc<V>) {
        self.0.insert(key, Arc::clone(found));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Eq)]
    struct Found(bool);

    impl Kept for Found {
        fn bytes(&self) -> usize {
            0
        }

        fn is_complete(&self) -> bool {
            self.0
        }
    }

    fn key(id: i64, path: &[u8]) -> CommitPath {
        CommitPath { repository: RepositoryId(id), commit: Oid::ZERO_SHA1, path: TreePath::clean(path).unwrap() }
    }

    #[test]
    fn a_result_is_kept_for_its_path_and_dropped_with_its_repository() {
        let cache = CommitPathCache::default();
        let found = Arc::new(Found(true));
        cache.keep(key(1, b"a"), &found);
        assert_eq!(cache.find(&key(1, b"a")), Some(found));
        assert_eq!((cache.find(&key(1, b"b")), cache.find(&key(2, b"a"))), (None, None));
        cache.forget(RepositoryId(1));
        assert_eq!(cache.find(&key(1, b"a")), None);
    }

    #[test]
    fn only_an_incomplete_result_expires() {
        let lifetime =
            |is_complete| Lifetime.expire_after_create(&key(1, b""), &Arc::new(Found(is_complete)), Instant::now());
        assert_eq!((lifetime(true), lifetime(false)), (None, Some(INCOMPLETE_LIFETIME)));
    }
}
