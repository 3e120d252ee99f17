//! Shared state of all RPC and HTTP handlers, with the caches of repositories, and the check of a caller's grant.

use std::sync::Arc;

use ferrite_core::{Clock, Lifecycle};
use ferrite_db::Db;
use ferrite_proto::{grant::Grant, id::RepositoryId, operation};
use ferrite_rpc::auth::{Authorizer, Caller};
use git_store::{
    disk::{repositories::RepositoryStore, space::DiskSpaceMeter},
    git::command::Git,
    repo::{pool::Pool, read::PathLogCache, refs::Refs},
    types::error::GitError,
};
use moka::sync::Cache;

use crate::{
    admission::{backlog::Backlogs, limiter::Limiters},
    db::RepositoryTable,
    imports::ImportService,
    maintenance::MaintenanceService,
    ref_updates::{RefUpdater, protection::BranchProtection},
    rpc_error::RpcError,
    transfer::{
        archive::{ArchiveCache, ArchiveService},
        copy::CopyService,
        fetch::{FetchService, PackCache},
        process_pipe::Transfers,
        push::{HookSessions, Hooks, PushService},
    },
};

/// Repositories whose epochs are cached.
pub(crate) const MAX_CACHED_EPOCHS: u64 = 100_000;
/// Operations that do not change the refs of a repository, and those that are about mirrors. All others are refused on mirrors.
const MIRROR_OPERATIONS: &[&str] = &[
    operation::LIST_BRANCHES,
    operation::GET_BRANCH,
    operation::GET_COMMIT,
    operation::GET_CONTENTS,
    operation::LIST_PROTECTIONS,
    operation::GET_PROTECTION,
    operation::UPLOAD_PACK,
    operation::RAW,
    operation::ASSET,
    operation::UPLOAD_ASSET,
    operation::ARCHIVE,
    operation::LIST_COMMITS,
    operation::LIST_TAGS,
    operation::GET_TREE,
    operation::GET_BLOB,
    operation::LIST_REFS,
    operation::GET_REF,
    operation::GET_TAG_OBJECT,
    operation::SYNC_MIRROR,
    operation::UPDATE_MIRROR,
];

/// Shared state of the service. Clones share one [`Parts`].
#[derive(Clone)]
pub(crate) struct AppState(Arc<Parts>);

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

/// Components that handlers use.
pub(crate) struct Parts {
    pub(crate) db: Db,
    pub(crate) clock: Clock,
    pub(crate) life: Lifecycle,
    pub(crate) authorizer: Authorizer,
    pub(crate) store: Arc<RepositoryStore>,
    pub(crate) disk_space: DiskSpaceMeter,
    pub(crate) pool: Pool,
    pub(crate) git: Arc<Git>,
    pub(crate) refs: Refs,
    pub(crate) updater: RefUpdater,
    pub(crate) repositories: RepositoryTable,
    pub(crate) protection: BranchProtection,
    pub(crate) limiters: Limiters,
    /// Where writes wait for a repository that has far too many packs or loose objects.
    pub(crate) backlogs: Backlogs,
    pub(crate) caches: RepositoryCaches,
    pub(crate) transfers: Transfers,
    /// Pushes and fetches whose hooks may call.
    pub(crate) sessions: HookSessions,
    /// Folders of the hooks that git runs.
    pub(crate) hooks: Hooks,
    pub(crate) pushes: PushService,
    pub(crate) fetches: FetchService,
    pub(crate) archives: ArchiveService,
    pub(crate) copies: CopyService,
    pub(crate) maintenance: Arc<MaintenanceService>,
    pub(crate) imports: ImportService,
    /// Largest file that can be written through the API, in bytes.
    pub(crate) max_file_bytes: u64,
}

impl std::ops::Deref for AppState {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl AppState {
    /// Wraps the components of the service.
    pub(crate) fn new(parts: Parts) -> Self {
        Self(Arc::new(parts))
    }

    /// Returns the caller's grant for the RPC it is calling, on a repository of this store.
    ///
    /// # Errors
    /// Those of [`AppState::authorize_as`].
    pub(crate) async fn authorize(&self, caller: &Caller, id: RepositoryId) -> Result<Arc<Grant>, RpcError> {
        self.authorize_as(caller, &caller.operation, id).await
    }

    /// Returns the caller's grant for `operation` on a repository of this store.
    ///
    /// # Errors
    /// When the caller has no valid grant for it; `WrongStore` for another store or an old epoch; `RepositoryNotFound`;
    /// `MirrorReadOnly` when the operation would change a mirror.
    pub(crate) async fn authorize_as(
        &self,
        caller: &Caller,
        operation: &str,
        id: RepositoryId,
    ) -> Result<Arc<Grant>, RpcError> {
        let grant = self.authorizer.authorize_as(caller, operation, id).await?;
        if grant.store != self.store.name() {
            return Err(GitError::WrongStore.into());
        }
        self.check_epoch(id, grant.epoch).await?;
        if grant.is_mirror && !MIRROR_OPERATIONS.contains(&operation) {
            return Err(GitError::MirrorReadOnly.into());
        }
        Ok(grant)
    }

    /// Refuses an epoch that is older than the newest one seen, and records a newer one.
    async fn check_epoch(&self, id: RepositoryId, epoch: i64) -> Result<(), RpcError> {
        let known = match self.caches.epochs.get(&id) {
            Some(known) => known,
            None => {
                let row = self.repositories.find(id).await?.filter(|row| !row.deleted);
                let row = row.ok_or(GitError::RepositoryNotFound)?;
                if row.store != self.store.name() {
                    return Err(GitError::WrongStore.into());
                }
                self.caches.epochs.insert(id, row.epoch);
                row.epoch
            }
        };
        if epoch < known {
            return Err(GitError::WrongStore.into());
        }
        if epoch > known {
            self.repositories.raise(id, epoch).await?;
            self.caches.epochs.insert(id, epoch);
        }
        Ok(())
    }
}
