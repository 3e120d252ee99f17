//! Remembers whether two commits can be merged. Entries never expire, because the result depends on
//! the two commits alone.

use std::sync::Arc;

use ferrite_proto::id::RepositoryId;
use git2::Oid;
use moka::sync::Cache;

use super::{Mergeability, conflicts::ConflictRange};
use crate::types::error::GitError;

const MAX_CACHE_BYTES: u64 = 16 << 20;
/// Bytes of an entry besides its files.
const ENTRY_OVERHEAD_BYTES: usize = 250;
/// Bytes of a file besides path, message and ranges.
const FILE_OVERHEAD_BYTES: usize = 200;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    repository: RepositoryId,
    base: Oid,
    head: Oid,
}

/// The cached results. Clones share the cache.
#[derive(Clone, Debug)]
pub struct MergeCache(Cache<Key, Arc<Mergeability>>);

impl Default for MergeCache {
    fn default() -> Self {
        let weigh = |_: &Key, found: &Arc<Mergeability>| u32::try_from(bytes_of(found)).unwrap_or(u32::MAX);
        Self(Cache::builder().max_capacity(MAX_CACHE_BYTES).weigher(weigh).support_invalidation_closures().build())
    }
}

impl MergeCache {
    /// Drops the entries of a deleted repository.
    pub fn forget(&self, repository: RepositoryId) {
        if let Err(error) = self.0.invalidate_entries_if(move |key, _| key.repository == repository) {
            tracing::warn!(repo.id = %repository, %error, "cannot drop the cached merges of a repository");
        }
    }

    /// Returns the cached result, or runs `check`, such as [`super::Merger::check`], and caches its
    /// result unless it fails.
    pub async fn get(
        &self,
        repository: RepositoryId,
        base: Oid,
        head: Oid,
        check: impl Future<Output = Result<Mergeability, GitError>>,
    ) -> Result<Arc<Mergeability>, GitError> {
        let key = Key { repository, base, head };
        if let Some(found) = self.0.get(&key) {
            return Ok(found);
        }
        let found = Arc::new(check.await?);
        self.0.insert(key, Arc::clone(&found));
        Ok(found)
    }
}

fn bytes_of(found: &Mergeability) -> usize {
    let Mergeability::Conflicts(conflicts) = found else { return ENTRY_OVERHEAD_BYTES };
    let files = conflicts.files.iter().map(|file| {
        let ranges = file.ranges.len() * size_of::<ConflictRange>();
        FILE_OVERHEAD_BYTES + file.path.len() + file.message.len() + ranges
    });
    ENTRY_OVERHEAD_BYTES + files.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_merge_is_tried_once() {
        let cache = MergeCache::default();
        let (id, base, head) = (RepositoryId(1), Oid::ZERO_SHA1, Oid::from_bytes(&[1; 20]).unwrap());
        let failed = cache.get(id, base, head, async { Err(GitError::Overloaded) }).await;
        assert!(matches!(failed, Err(GitError::Overloaded)));
        let found = cache.get(id, base, head, async { Ok(Mergeability::Clean) }).await.unwrap();
        assert_eq!(cache.get(id, base, head, std::future::pending()).await.unwrap(), found);
        let conflicts = || async { Ok(Mergeability::Conflicts(super::super::Conflicts::default())) };
        for (id, base, head) in [(RepositoryId(2), base, head), (id, head, base)] {
            assert_ne!(cache.get(id, base, head, conflicts()).await.unwrap(), found);
        }
    }
}
