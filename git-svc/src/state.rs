//! Shared state of all RPC and HTTP handlers, per-repository caches, and the check of grants.

use std::sync::Arc;

use ferrite_core::{Clock, Lifecycle};
use ferrite_db::Db;
use ferrite_proto::{
    grant::{Grant, Verifier},
    id::RepositoryId,
    operation,
};
use ferrite_rpc::{
    auth::{Authorizer, Caller},
    service_key::ServiceVerifier,
};
use git_store::{
    disk::{repositories::RepositoryStore, space::DiskSpaceMeter},
    git::command::Git,
    repo::{
        pool::Pool,
        read::{PathLogCache, blame::Blame, commit_paths::CommitPathCache, tree_commits::TreeCommits},
        refs::Refs,
    },
    types::error::GitError,
};
use moka::sync::Cache;

use crate::{
    admission::{backlog::Backlogs, limiter::Limiters},
    db::{RepositoryTable, StatusTable},
    imports::ImportService,
    languages::LanguageService,
    maintenance::MaintenanceService,
    merges::Merges,
    ref_updates::{RefUpdater, protection::BranchProtection},
    rpc_error::RpcError,
    transfer::{
        archive::{ArchiveCache, ArchiveService},
        copy::CopyService,
        fetch::{FetchService, PackCache},
        process_pipe::Transfers,
        push::{HookSessions, Hooks, PushService},
        stage::StageService,
    },
};

pub(crate) const MAX_CACHED_EPOCHS: u64 = 100_000;
/// Writes that a mirror takes. They leave its branches and tags alone.
const MIRROR_WRITES: [&str; 4] =
    [operation::CREATE_STATUS, operation::UPLOAD_ASSET, operation::SYNC_MIRROR, operation::UPDATE_MIRROR];

#[derive(Clone)]
pub(crate) struct AppState(Arc<Parts>);

/// Caches with data of single repositories.
pub(crate) struct RepositoryCaches {
    /// Newest known epochs. Always equal to the table, because no other process writes it.
    pub(crate) epochs: Cache<RepositoryId, i64>,
    pub(crate) pool: Pool,
    pub(crate) refs: Refs,
    pub(crate) packs: PackCache,
    pub(crate) archives: ArchiveCache,
    pub(crate) path_logs: PathLogCache,
    pub(crate) tree_commits: CommitPathCache<TreeCommits>,
    pub(crate) blames: CommitPathCache<Blame>,
    pub(crate) merges: Merges,
}

impl RepositoryCaches {
    /// Drops all cached data of a deleted repository. Open readers of packs and archives finish
    /// undisturbed.
    pub(crate) fn forget(&self, id: RepositoryId) {
        // No `..`: a new cache does not compile until it is cleared here.
        let Self { epochs, pool, refs, packs, archives, path_logs, tree_commits, blames, merges } = self;
        epochs.invalidate(&id);
        pool.forget(id);
        refs.forget(id);
        packs.forget(id);
        archives.forget(id);
        path_logs.forget(id);
        tree_commits.forget(id);
        blames.forget(id);
        merges.forget(id);
    }
}

pub(crate) struct Parts {
    pub(crate) db: Db,
    pub(crate) clock: Clock,
    pub(crate) life: Lifecycle,
    pub(crate) authorizer: Authorizer,
    /// Verifies grants that a request names besides its own.
    pub(crate) verifier: Arc<Verifier>,
    /// Verifies permits to merge.
    pub(crate) permits: ServiceVerifier,
    pub(crate) store: Arc<RepositoryStore>,
    pub(crate) disk_space: DiskSpaceMeter,
    pub(crate) pool: Pool,
    pub(crate) git: Arc<Git>,
    pub(crate) refs: Refs,
    pub(crate) updater: RefUpdater,
    pub(crate) repositories: RepositoryTable,
    pub(crate) protection: BranchProtection,
    pub(crate) statuses: StatusTable,
    pub(crate) limiters: Limiters,
    /// Makes writes wait while a repository has far too many packs or loose objects.
    pub(crate) backlogs: Backlogs,
    pub(crate) caches: RepositoryCaches,
    pub(crate) transfers: Transfers,
    /// Running pushes and fetches whose hooks may call back.
    pub(crate) sessions: HookSessions,
    pub(crate) hooks: Hooks,
    pub(crate) pushes: PushService,
    pub(crate) fetches: FetchService,
    pub(crate) archives: ArchiveService,
    pub(crate) copies: CopyService,
    pub(crate) stages: StageService,
    pub(crate) maintenance: Arc<MaintenanceService>,
    pub(crate) imports: ImportService,
    pub(crate) languages: LanguageService,
    pub(crate) merges: Merges,
    /// Size limit of a file written through the API.
    pub(crate) max_file_bytes: u64,
}

impl std::ops::Deref for AppState {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl AppState {
    pub(crate) fn new(parts: Parts) -> Self {
        Self(Arc::new(parts))
    }

    pub(crate) async fn authorize(&self, caller: &Caller, id: RepositoryId) -> Result<Arc<Grant>, RpcError> {
        self.authorize_as(caller, &caller.operation, id).await
    }

    /// Returns the caller's grant for `operation` on a repository of this store.
    ///
    /// Besides missing or invalid grants it rejects another store or an old epoch (`WrongStore`),
    /// missing repositories, and changes to a mirror (`MirrorReadOnly`).
    pub(crate) async fn authorize_as(
        &self,
        caller: &Caller,
        operation: &str,
        id: RepositoryId,
    ) -> Result<Arc<Grant>, RpcError> {
        let grant = self.authorizer.authorize_as(caller, operation, id).await?;
        self.check_place(&grant, operation).await?;
        Ok(grant)
    }

    /// Like [`AppState::authorize`], for the wiki of `repository`, which is the repository of the grant.
    pub(crate) async fn authorize_wiki(
        &self,
        caller: &Caller,
        repository: RepositoryId,
    ) -> Result<Arc<Grant>, RpcError> {
        let grant = self.authorizer.authorize_wiki(caller, repository).await?;
        self.check_place(&grant, &caller.operation).await?;
        Ok(grant)
    }

    async fn check_place(&self, grant: &Grant, operation: &str) -> Result<(), RpcError> {
        if grant.store != self.store.name() {
            return Err(GitError::WrongStore.into());
        }
        self.check_epoch(grant.repository_id(), grant.epoch).await?;
        if grant.is_mirror && operation::is_write(operation) && !MIRROR_WRITES.contains(&operation) {
            return Err(GitError::MirrorReadOnly.into());
        }
        Ok(())
    }

    /// Rejects an epoch older than the newest one seen, and records a newer one.
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
