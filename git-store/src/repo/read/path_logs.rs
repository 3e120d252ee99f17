//! Caches which commits changed a path, as listed by git. Entries never expire, because the history
//! of a commit does not change.

use std::sync::Arc;

use ferrite_proto::id::RepositoryId;
use git2::Oid;
use moka::sync::Cache;

use crate::{
    repo::refs::Page,
    types::{error::GitError, path::TreePath},
};

const MAX_CACHE_BYTES: u64 = 16 << 20;
/// Bytes of an entry besides its ids and its path.
const ENTRY_OVERHEAD_BYTES: usize = 200;

/// A page of the history of a path from the commit `tip`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PathLogKey {
    repository: RepositoryId,
    tip: Oid,
    path: Vec<u8>,
    number: usize,
    size: usize,
    follows_renames: bool,
}

impl PathLogKey {
    /// Creates the key of a page.
    pub fn new(repository: RepositoryId, tip: Oid, path: &TreePath, page: Page) -> Self {
        let (path, Page { number, size }) = (path.as_bytes().to_vec(), page);
        Self { repository, tip, path, number, size, follows_renames: false }
    }

    /// Makes it the key of a history over renames.
    #[must_use]
    pub fn over_renames(self) -> Self {
        Self { follows_renames: true, ..self }
    }
}

/// The cached ids. Clones share the cache.
#[derive(Clone, Debug)]
pub struct PathLogCache(Cache<PathLogKey, Arc<Vec<Oid>>>);

impl Default for PathLogCache {
    fn default() -> Self {
        let weigh = |key: &PathLogKey, ids: &Arc<Vec<Oid>>| {
            u32::try_from(ENTRY_OVERHEAD_BYTES + key.path.len() + ids.len() * size_of::<Oid>()).unwrap_or(u32::MAX)
        };
        Self(Cache::builder().max_capacity(MAX_CACHE_BYTES).weigher(weigh).support_invalidation_closures().build())
    }
}

impl PathLogCache {
    /// Drops the entries of a deleted repository.
    pub fn forget(&self, repository: RepositoryId) {
        if let Err(error) = self.0.invalidate_entries_if(move |key, _| key.repository == repository) {
            tracing::warn!(repo.id = %repository, %error, "cannot drop the cached path logs of a repository");
        }
    }

    /// Returns the cached commits, or runs `find` and caches its result unless it fails.
    pub async fn get(
        &self,
        key: PathLogKey,
        find: impl Future<Output = Result<Vec<Oid>, GitError>>,
    ) -> Result<Arc<Vec<Oid>>, GitError> {
        if let Some(ids) = self.0.get(&key) {
            metrics::counter!("ferrite_git_path_log_lookups_total", "result" => "hit").increment(1);
            return Ok(ids);
        }
        metrics::counter!("ferrite_git_path_log_lookups_total", "result" => "miss").increment(1);
        let ids = Arc::new(find.await?);
        self.0.insert(key, Arc::clone(&ids));
        Ok(ids)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_was_found_once_is_not_looked_for_again() {
        let logs = PathLogCache::default();
        let (path, page) = (TreePath::clean(b"a/b").unwrap(), Page { number: 1, size: 2 });
        let key = |id, page| PathLogKey::new(RepositoryId(id), Oid::ZERO_SHA1, &path, page);
        let failed = logs.get(key(1, page), async { Err(GitError::Overloaded) }).await;
        assert!(matches!(failed, Err(GitError::Overloaded)));
        let found = logs.get(key(1, page), async { Ok(vec![Oid::ZERO_SHA1]) }).await.unwrap();
        assert_eq!(logs.get(key(1, page), std::future::pending()).await.unwrap(), found);
        let others = [
            key(2, page),
            key(1, Page { number: 2, ..page }),
            key(1, Page { size: 3, ..page }),
            key(1, page).over_renames(),
        ];
        for other in others {
            assert!(logs.get(other, async { Ok(Vec::new()) }).await.unwrap().is_empty());
        }
    }
}
