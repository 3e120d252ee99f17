//! The parts that archives are made with.

use std::sync::Arc;

use ferrite_kit::Lifecycle;

use super::cache::ArchiveCache;
use crate::{admission::limiter::Limiter, disk::repositories::RepositoryStore, git::command::Git, repo::pool::Pool};

/// Makes archives, or finds them in the cache. Clones share everything.
#[derive(Clone)]
pub(crate) struct ArchiveService {
    pub(super) git: Arc<Git>,
    pub(super) store: Arc<RepositoryStore>,
    pub(super) pool: Pool,
    pub(super) limiter: Arc<Limiter>,
    pub(super) cache: ArchiveCache,
    pub(super) life: Lifecycle,
}

impl ArchiveService {
    /// A service that makes as many archives at once as `limiter` permits.
    pub(crate) fn new(
        git: Arc<Git>,
        store: Arc<RepositoryStore>,
        pool: Pool,
        limiter: Arc<Limiter>,
        cache: ArchiveCache,
        life: Lifecycle,
    ) -> Self {
        Self { git, store, pool, limiter, cache, life }
    }
}
