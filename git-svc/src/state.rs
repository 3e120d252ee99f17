//! What every call works with, put together once.

use std::sync::Arc;

use ferrite_kit::{
    Clock, Lifecycle,
    auth::{Access, Caller},
    db::Db,
};
use ferrite_proto::{grant::Grant, id::RepositoryId, operation};
use moka::sync::Cache;

use crate::{
    admission::limiter::Limiters,
    config::limits::LimitArgs,
    db::{RepositoryRow, RepositoryTable},
    disk::repositories::RepositoryStore,
    git::command::Git,
    maintenance::RunningJobs,
    ref_updates::{RefUpdater, protection::BranchProtection},
    repo::{pool::Pool, read::PathLogCache, refs::Refs},
    transfer::{
        archive::ArchiveCache,
        fetch::PackCache,
        push::{HookSessions, Hooks},
    },
    types::{error::GitError, rpc_error::RpcError},
};

/// Repositories whose epoch is kept in memory.
const MAX_CACHED_EPOCHS: u64 = 100_000;
/// What leaves a repository as it is. Everything else is a change.
const READ_OPERATIONS: &[&str] = &[
    operation::LIST_BRANCHES,
    operation::GET_BRANCH,
    operation::GET_COMMIT,
    operation::GET_CONTENTS,
    operation::LIST_PROTECTIONS,
    operation::GET_PROTECTION,
    operation::UPLOAD_PACK,
    operation::RAW,
    operation::ARCHIVE,
    operation::LIST_COMMITS,
    operation::LIST_TAGS,
    operation::GET_TREE,
    operation::GET_BLOB,
    operation::LIST_REFS,
    operation::GET_REF,
    operation::GET_TAG_OBJECT,
];

/// The parts of the service. Clones share everything.
#[derive(Clone)]
pub(crate) struct AppState(Arc<Parts>);

/// See [`App`].
pub(crate) struct Parts {
    pub(crate) db: Db,
    pub(crate) clock: Clock,
    pub(crate) life: Lifecycle,
    pub(crate) access: Access,
    pub(crate) store: Arc<RepositoryStore>,
    pub(crate) pool: Pool,
    pub(crate) git: Arc<Git>,
    pub(crate) refs: Refs,
    pub(crate) updater: RefUpdater,
    pub(crate) repositories: RepositoryTable,
    pub(crate) sessions: HookSessions,
    pub(crate) limiters: Limiters,
    pub(crate) limits: LimitArgs,
    pub(crate) archives: ArchiveCache,
    pub(crate) packs: PackCache,
    pub(crate) max_push_bytes: u64,
    pub(crate) max_push_objects: u64,
    pub(crate) max_push_refs: usize,
    pub(crate) protection: BranchProtection,
    /// Where the hooks are.
    pub(crate) hooks: Hooks,
    pub(crate) epochs: EpochCache,
    pub(crate) path_logs: PathLogCache,
    /// Upkeep that is going on.
    pub(crate) running: RunningJobs,
}

/// Epochs of repositories, as the table has them: this process is the only one that writes them.
pub(crate) struct EpochCache(Cache<RepositoryId, i64>);

impl Default for EpochCache {
    fn default() -> Self {
        Self(Cache::new(MAX_CACHED_EPOCHS))
    }
}

impl EpochCache {
    /// Forgets a repository that changed its place or is gone.
    pub(crate) fn forget(&self, id: RepositoryId) {
        self.0.invalidate(&id);
    }
}

impl std::ops::Deref for AppState {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl AppState {
    /// Shares the parts.
    pub(crate) fn new(parts: Parts) -> Self {
        Self(Arc::new(parts))
    }

    /// The caller's grant to do to a repository on this store what it is calling.
    pub(crate) async fn authorize(&self, caller: &Caller, id: i64) -> Result<Arc<Grant>, RpcError> {
        self.authorize_as(caller, &caller.operation, id).await
    }

    /// The same for one of the bodies. Nobody writes to what follows a remote.
    pub(crate) async fn authorize_as(&self, caller: &Caller, operation: &str, id: i64) -> Result<Arc<Grant>, RpcError> {
        let id = RepositoryId(id);
        let grant = self.access.authorize_as(caller, operation, id).await?;
        if grant.store != self.store.name() {
            return Err(GitError::WrongStore.into());
        }
        self.check_epoch(id, grant.epoch).await?;
        if grant.is_mirror && !READ_OPERATIONS.contains(&operation) {
            return Err(GitError::MirrorReadOnly.into());
        }
        Ok(grant)
    }

    /// Refuses an epoch that is older than the newest one seen; remembers a newer one.
    async fn check_epoch(&self, id: RepositoryId, epoch: i64) -> Result<(), RpcError> {
        let known = match self.epochs.0.get(&id) {
            Some(known) => known,
            None => {
                let row = self.repositories.find(id).await?.ok_or(GitError::RepositoryNotFound)?;
                let known = self.epoch_here(&row)?;
                self.epochs.0.insert(id, known);
                known
            }
        };
        if epoch < known {
            return Err(GitError::WrongStore.into());
        }
        if epoch > known {
            self.repositories.raise(id, epoch).await?;
            self.epochs.0.insert(id, epoch);
        }
        Ok(())
    }

    fn epoch_here(&self, row: &RepositoryRow) -> Result<i64, GitError> {
        if row.deleted {
            return Err(GitError::RepositoryNotFound);
        }
        if row.store != self.store.name() { Err(GitError::WrongStore) } else { Ok(row.epoch) }
    }
}
