//! The parts that archives are made with.

use std::sync::Arc;

use ferrite_core::Lifecycle;
use git_store::{disk::repositories::RepositoryStore, git::command::Git, repo::pool::Pool};

use super::cache::ArchiveCache;
use crate::admission::{limiter::Limiter, memory_budget::MemoryBudget};

/// Makes archives, or finds them in the cache. Clones share everything.
#[derive(Clone)]
pub(crate) struct ArchiveService {
    pub(crate) git: Arc<Git>,
    pub(crate) store: Arc<RepositoryStore>,
    pub(crate) pool: Pool,
    /// Permits of archives that are made at once.
    pub(crate) limiter: Arc<Limiter>,
    /// Memory for files that are built from deltas.
    pub(crate) delta_memory: Arc<MemoryBudget>,
    pub(crate) cache: ArchiveCache,
    pub(crate) life: Lifecycle,
}
