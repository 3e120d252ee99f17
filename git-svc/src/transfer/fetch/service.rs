//! The parts that fetches work with.

use std::{sync::Arc, time::Duration};

use ferrite_kit::Lifecycle;

use super::cache::PackCache;
use crate::{admission::limiter::Limiter, disk::repositories::RepositoryStore, git::command::Git, repo::pool::Pool};

/// Interval between two removals of unused packs.
const EXPIRY_INTERVAL: Duration = Duration::from_secs(30);

/// Makes packs for fetches, or finds them in the cache. Clones share everything.
#[derive(Clone)]
pub(crate) struct FetchService {
    pub(super) git: Arc<Git>,
    pub(super) store: Arc<RepositoryStore>,
    pub(super) pool: Pool,
    pub(super) limiter: Arc<Limiter>,
    pub(super) cache: PackCache,
    pub(super) life: Lifecycle,
}

impl FetchService {
    /// A service that makes as many packs at once as `limiter` permits.
    pub(crate) fn new(
        git: Arc<Git>,
        store: Arc<RepositoryStore>,
        pool: Pool,
        limiter: Arc<Limiter>,
        cache: PackCache,
        life: Lifecycle,
    ) -> Self {
        Self { git, store, pool, limiter, cache, life }
    }

    /// Removes packs from the cache that have not been used lately, until the process stops.
    pub(crate) async fn expire_in_background(self) {
        while self.life.pause(EXPIRY_INTERVAL).await {
            self.cache.expire();
        }
    }
}
