//! Remembers the last commits of folders: the same pages are read again and again. The result
//! depends on the commit alone, so only those that time did not suffice for expire.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use ferrite_proto::id::RepositoryId;
use git2::Oid;
use moka::{Expiry, sync::Cache};

use super::{EntryCommit, TreeCommits};
use crate::{repo::read::commit_summary::CommitSummary, types::path::TreePath};

const MAX_CACHE_BYTES: u64 = 32 << 20;
/// Bytes of a result besides its entries, its commits and the path.
const OVERHEAD_BYTES: usize = 300;
/// Time after which an incomplete result is looked for again: the machine may have been busy.
const INCOMPLETE_LIFETIME: Duration = Duration::from_secs(60);

/// A folder of a commit.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TreeCommitKey {
    /// The repository.
    pub repository: RepositoryId,
    /// The commit.
    pub commit: Oid,
    /// The path of the folder.
    pub folder: TreePath,
}

/// The cached results. Clones share the cache.
#[derive(Clone, Debug)]
pub struct TreeCommitCache(Cache<TreeCommitKey, Arc<TreeCommits>>);

struct Lifetime;

impl Expiry<TreeCommitKey, Arc<TreeCommits>> for Lifetime {
    fn expire_after_create(&self, _: &TreeCommitKey, found: &Arc<TreeCommits>, _: Instant) -> Option<Duration> {
        (!found.is_complete).then_some(INCOMPLETE_LIFETIME)
    }
}

impl Default for TreeCommitCache {
    fn default() -> Self {
        let weigh = |key: &TreeCommitKey, found: &Arc<TreeCommits>| {
            u32::try_from(key.folder.as_bytes().len() + bytes_of(found)).unwrap_or(u32::MAX)
        };
        let cache = Cache::builder().max_capacity(MAX_CACHE_BYTES).weigher(weigh).expire_after(Lifetime);
        Self(cache.support_invalidation_closures().build())
    }
}

impl TreeCommitCache {
    /// Drops the entries of a deleted repository.
    pub fn forget(&self, repository: RepositoryId) {
        if let Err(error) = self.0.invalidate_entries_if(move |key, _| key.repository == repository) {
            tracing::warn!(repo.id = %repository, %error, "cannot drop the cached last commits of a repository");
        }
    }

    /// Returns a cached result.
    pub fn find(&self, key: &TreeCommitKey) -> Option<Arc<TreeCommits>> {
        self.0.get(key)
    }

    /// Caches a result.
    pub fn keep(&self, key: TreeCommitKey, found: &Arc<TreeCommits>) {
        self.0.insert(key, Arc::clone(found));
    }
}

fn bytes_of(found: &TreeCommits) -> usize {
    let entries = found.entries.iter().map(|entry| size_of::<EntryCommit>() + entry.name.len());
    let commits = found.commit.iter().chain(&found.commits).map(CommitSummary::bytes);
    OVERHEAD_BYTES + entries.sum::<usize>() + commits.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_kept_for_its_folder_and_dropped_with_its_repository() {
        let cache = TreeCommitCache::default();
        let key = |id, folder: &[u8]| TreeCommitKey {
            repository: RepositoryId(id),
            commit: Oid::ZERO_SHA1,
            folder: TreePath::clean(folder).unwrap(),
        };
        let found = Arc::new(TreeCommits::empty());
        cache.keep(key(1, b"a"), &found);
        assert_eq!(cache.find(&key(1, b"a")), Some(found));
        assert_eq!((cache.find(&key(1, b"b")), cache.find(&key(2, b"a"))), (None, None));
        cache.forget(RepositoryId(1));
        assert_eq!(cache.find(&key(1, b"a")), None);
    }

    #[test]
    fn only_an_incomplete_result_expires() {
        let key = TreeCommitKey { repository: RepositoryId(1), commit: Oid::ZERO_SHA1, folder: TreePath::root() };
        let lifetime = |is_complete| {
            let found = Arc::new(TreeCommits { is_complete, ..TreeCommits::empty() });
            Lifetime.expire_after_create(&key, &found, Instant::now())
        };
        assert_eq!((lifetime(true), lifetime(false)), (None, Some(INCOMPLETE_LIFETIME)));
    }
}
