//! The caches of repositories, in memory and in the cache folder, and the one way to drop all that they hold of a repository.

use ferrite_proto::id::RepositoryId;
use git_store::repo::{pool::Pool, read::PathLogCache, refs::Refs};
use moka::sync::Cache;

use crate::transfer::{archive::ArchiveCache, fetch::PackCache};

/// Repositories whose epochs are cached.
pub(crate) const MAX_CACHED_EPOCHS: u64 = 100_000;

/// All caches that hold something of single repositories.
pub(crate) struct RepositoryCaches {
    /// The newest known epochs. Always equal to the table's, because no other process writes it.
    pub(crate) epochs: Cache<RepositoryId, i64>,
    /// Open handles of repositories.
    pub(crate) pool: Pool,
    /// Tables of refs.
    pub(crate) refs: Refs,
    pub(crate) packs: PackCache,
    pub(crate) archives: ArchiveCache,
    pub(crate) path_logs: PathLogCache,
}

impl RepositoryCaches {
    /// Drops everything about a repository that was deleted. Readers of packs and archives read theirs to the end.
    pub(crate) fn forget(&self, id: RepositoryId) {
        // Without `..`: a new cache is forgotten here, too, or does not compile.
        let Self { epochs, pool, refs, packs, archives, path_logs } = self;
        epochs.invalidate(&id);
        pool.forget(id);
        refs.forget(id);
        packs.forget(id);
        archives.forget(id);
        path_logs.forget(id);
    }
}
