use std::{sync::Arc, time::Duration};

use ferrite_core::Lifecycle;
use ferrite_proto::id::RepositoryId;
use git_store::{
    disk::repositories::RepositoryStore,
    git::command::Git,
    repo::{
        deltas::{self, Marking},
        pool::Pool,
    },
    types::{error::GitError, limits::MAX_DELTA_OBJECT_BYTES},
};

use moka::sync::Cache;

use super::{cache::PackCache, request::Fetch};
use crate::admission::{
    limiter::{Limiter, Permit},
    memory_budget::{MemoryBudget, MemoryPermit},
};

const EXPIRY_INTERVAL: Duration = Duration::from_secs(30);
/// Repositories with more objects than this are searched for large deltas while a pack is made,
/// smaller ones before. Searching this many takes at most half a second.
const MAX_SEARCHED_OBJECTS: u64 = 50_000;
/// How many repositories with large deltas are remembered, and for how long, to avoid searching
/// them for each fetch.
const MAX_REMEMBERED: u64 = 10_000;
const REMEMBERED_FOR: Duration = Duration::from_secs(600);

/// Makes packs for fetches, or finds them in the cache. Clones share everything.
#[derive(Clone)]
pub(crate) struct FetchService {
    pub(crate) git: Arc<Git>,
    pub(crate) store: Arc<RepositoryStore>,
    pub(crate) pool: Pool,
    pub(crate) limiter: Arc<Limiter>,
    pub(crate) delta_memory: Arc<MemoryBudget>,
    pub(crate) cache: PackCache,
    /// Repositories that were found to have large deltas.
    pub(crate) large: Cache<RepositoryId, ()>,
    pub(crate) life: Lifecycle,
}

pub(crate) fn large_repositories() -> Cache<RepositoryId, ()> {
    Cache::builder().max_capacity(MAX_REMEMBERED).time_to_live(REMEMBERED_FOR).build()
}

/// Permit to make a pack, with memory if the repository has large deltas.
pub(super) type PackPermit = (Permit, Option<MemoryPermit>);

impl FetchService {
    /// Waits for the permit to make a pack. git builds a file if it cannot copy its delta, for
    /// example because the base is not in the pack. Its size is unknown, so in a repository with
    /// large deltas it counts as the largest. A repository from an earlier version is searched for
    /// them first, or while the pack is made if that would take long.
    pub(super) async fn admit(&self, fetch: &Fetch) -> Result<PackPermit, GitError> {
        let id = fetch.repository;
        let permit = self.limiter.acquire(id, &fetch.client).await?;
        if !self.large.contains_key(&id) {
            match self.search(id, MAX_SEARCHED_OBJECTS).await {
                Marking::Marked | Marking::None => return Ok((permit, None)),
                Marking::Large => {}
                Marking::NotSearched => {
                    let own = self.clone();
                    drop(self.life.spawn("search for large deltas", async move {
                        own.search(id, u64::MAX).await;
                    }));
                    return Ok((permit, None));
                }
            }
        }
        let memory = self.delta_memory.acquire(MAX_DELTA_OBJECT_BYTES, &fetch.client).await?;
        Ok((permit, Some(memory)))
    }

    /// Searches an unmarked repository for large deltas. Marks it if it has none, and remembers it
    /// otherwise.
    async fn search(&self, id: RepositoryId, max_objects: u64) -> Marking {
        let marking = match self.pool.run_blocking(move |store| deltas::mark(store, id, max_objects)).await {
            Ok(marking) => marking,
            // Maintenance may have removed a pack.
            Err(error) => {
                tracing::debug!(repo.id = %id, %error, "cannot search the packs for large deltas");
                Marking::NotSearched
            }
        };
        if marking == Marking::Large {
            self.large.insert(id, ());
        }
        marking
    }

    /// Removes unused packs from the cache, until the process stops.
    pub(crate) async fn expire_in_background(self) {
        while self.life.pause(EXPIRY_INTERVAL).await {
            self.cache.expire();
        }
    }
}

#[cfg(test)]
mod tests {
    use git_store::{disk::delta_mark, git::command::GitOptions, repo::pool::PoolOptions, types::name::BranchName};

    use super::*;
    use crate::admission::limiter::ClientKey;

    #[tokio::test]
    async fn packs_of_a_repository_with_large_deltas_take_memory() {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(RepositoryStore::open(folder.path(), "s", Duration::from_secs(10)).await.unwrap());
        let id = RepositoryId(1);
        store.create(id, &BranchName::parse(b"main").unwrap(), |_| Ok(None)).unwrap();
        let fetches = FetchService {
            git: Arc::new(Git::find(GitOptions::default()).await.unwrap()),
            pool: Pool::new(Arc::clone(&store), PoolOptions { workers: 2, ..PoolOptions::default() }).unwrap(),
            limiter: Arc::new(Limiter::new("pack", 9, 9)),
            delta_memory: Arc::new(MemoryBudget::new(2 * MAX_DELTA_OBJECT_BYTES, Duration::ZERO)),
            cache: PackCache::open(&store.cache(), 1000).unwrap(),
            large: large_repositories(),
            life: Lifecycle::new(Duration::from_secs(5)),
            store: Arc::clone(&store),
        };
        let by = |user| Fetch { repository: id, epoch: 1, client: ClientKey::User(user) };
        let (one, two) = (by(1), by(2));
        assert!(fetches.admit(&one).await.unwrap().1.is_none(), "it has none");
        let path = store.path(id);
        delta_mark::remove(&path).unwrap();
        let quarantine = store.begin_quarantine(id).unwrap();
        assert!(fetches.admit(&one).await.unwrap().1.is_none(), "it has none, even if one may come");
        assert!(!delta_mark::is_set(&path));
        store.remove_incoming(&quarantine).unwrap();
        assert!(fetches.admit(&one).await.unwrap().1.is_none(), "it was searched");
        assert!(delta_mark::is_set(&path));

        delta_mark::clear(&path).unwrap();
        let (_permit, memory) = fetches.admit(&one).await.unwrap();
        assert!(memory.is_some(), "it has got some");
        assert!(matches!(fetches.admit(&one).await, Err(GitError::Overloaded)), "all that one client may have");
        fetches.admit(&two).await.unwrap();
    }
}
