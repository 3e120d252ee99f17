//! The parts that fetches work with.

use std::{sync::Arc, time::Duration};

use ferrite_core::Lifecycle;
use git_store::{
    disk::repositories::RepositoryStore,
    git::command::Git,
    repo::{deltas, pool::Pool},
    types::{error::GitError, limits::MAX_DELTA_OBJECT_BYTES},
};

use super::{cache::PackCache, request::Fetch};
use crate::admission::{
    limiter::{Limiter, Permit},
    memory_budget::{MemoryBudget, MemoryPermit},
};

/// Interval between two removals of unused packs.
const EXPIRY_INTERVAL: Duration = Duration::from_secs(30);
/// Most objects of a repository that is searched for large deltas before a pack of it is made. That takes a second or two; larger ones wait
/// for maintenance.
const MAX_SEARCHED_OBJECTS: u64 = 200_000;

/// Makes packs for fetches, or finds them in the cache. Clones share everything.
#[derive(Clone)]
pub(crate) struct FetchService {
    pub(crate) git: Arc<Git>,
    pub(crate) store: Arc<RepositoryStore>,
    pub(crate) pool: Pool,
    /// Permits of packs that are made at once.
    pub(crate) limiter: Arc<Limiter>,
    /// Memory for files that are built from deltas.
    pub(crate) delta_memory: Arc<MemoryBudget>,
    pub(crate) cache: PackCache,
    pub(crate) life: Lifecycle,
}

/// Permit to make a pack, with the memory for that if the repository may have large deltas.
pub(super) type PackPermit = (Permit, Option<MemoryPermit>);

impl FetchService {
    /// Waits for the permit to make a pack. git builds a file whose delta it cannot copy, for example because the base is not in the pack. How
    /// large it is, is not known: in a repository that may have large deltas it counts as the largest. A small one of an earlier version
    /// is searched for them first.
    ///
    /// # Errors
    /// `Overloaded`.
    pub(super) async fn admit(&self, fetch: &Fetch) -> Result<PackPermit, GitError> {
        let id = fetch.repository;
        let permit = self.limiter.acquire(id, &fetch.client).await?;
        let marked = self.pool.run_blocking(move |store| deltas::mark(store, id, MAX_SEARCHED_OBJECTS)).await;
        match marked {
            Ok(true) => return Ok((permit, None)),
            Ok(false) => {}
            // Maintenance may have removed a pack.
            Err(error) => tracing::debug!(repo.id = %id, %error, "the packs were not searched for large deltas"),
        }
        let memory = self.delta_memory.acquire(MAX_DELTA_OBJECT_BYTES, &fetch.client).await?;
        Ok((permit, Some(memory)))
    }

    /// Removes packs from the cache that have not been used lately, until the process stops.
    pub(crate) async fn expire_in_background(self) {
        while self.life.pause(EXPIRY_INTERVAL).await {
            self.cache.expire();
        }
    }
}

#[cfg(test)]
mod tests {
    use ferrite_proto::id::RepositoryId;
    use git_store::{disk::delta_mark, git::command::GitOptions, repo::pool::PoolOptions, types::name::BranchName};

    use super::*;
    use crate::admission::limiter::ClientKey;

    #[tokio::test]
    async fn packs_of_a_repository_that_may_have_large_deltas_take_memory() {
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
            life: Lifecycle::new(Duration::from_secs(5)),
            store: Arc::clone(&store),
        };
        let by = |user| Fetch { repository: id, epoch: 1, client: ClientKey::User(user) };
        let (one, two) = (by(1), by(2));
        assert!(fetches.admit(&one).await.unwrap().1.is_none(), "it has none");
        delta_mark::clear(&store.path(id)).unwrap();
        // While it is there, it might bring some.
        let quarantine = store.begin_quarantine(id).unwrap();
        let (_permit, memory) = fetches.admit(&one).await.unwrap();
        assert!(memory.is_some());
        assert!(matches!(fetches.admit(&one).await, Err(GitError::Overloaded)), "all that one client may have");
        fetches.admit(&two).await.unwrap();
        store.remove_incoming(&quarantine).unwrap();
        assert!(fetches.admit(&one).await.unwrap().1.is_none(), "it was searched");
        assert!(delta_mark::is_set(&store.path(id)));
    }
}
