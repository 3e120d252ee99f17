//! The parts that fetches work with.

use std::{sync::Arc, time::Duration};

use ferrite_core::Lifecycle;
use git_store::{disk::repositories::RepositoryStore, git::command::Git, repo::pool::Pool};

use super::cache::PackCache;
use crate::admission::limiter::Limiter;

/// Interval between two removals of unused packs.
const EXPIRY_INTERVAL: Duration = Duration::from_secs(30);

/// Makes packs for fetches, or finds them in the cache. Clones share everything.
#[derive(Clone)]
pub(crate) struct FetchService {
    pub(crate) git: Arc<Git>,
    pub(crate) store: Arc<RepositoryStore>,
    pub(crate) pool: Pool,
    /// Permits of packs that are made at once.
    pub(crate) limiter: Arc<Limiter>,
    pub(crate) cache: PackCache,
    pub(crate) life: Lifecycle,
}

impl FetchService {
    /// Removes packs from the cache that have not been used lately, until the process stops.
    pub(crate) async fn expire_in_background(self) {
        while self.life.pause(EXPIRY_INTERVAL).await {
            self.cache.expire();
        }
    }
}
