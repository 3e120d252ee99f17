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
    archive::Archives,
    command::Git,
    error::GitError,
    failure::Failure,
    http::Gates,
    layout::Store,
    limits::LimitArgs,
    packs::Packs,
    pool::Pool,
    protection::Protection,
    push::{Hooks, Sessions},
    read::PathLogs,
    refs::Refs,
    store::{Placed, Repositories},
    upkeep::Running,
    work::Writer,
};

/// Repositories whose epoch is kept in memory.
const PLACES: u64 = 100_000;
/// What leaves a repository as it is. Everything else is a change.
const READS: &[&str] = &[
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
pub(crate) struct App(Arc<Parts>);

/// See [`App`].
pub(crate) struct Parts {
    pub(crate) db: Db,
    pub(crate) clock: Clock,
    pub(crate) life: Lifecycle,
    pub(crate) access: Access,
    pub(crate) store: Arc<Store>,
    pub(crate) pool: Pool,
    pub(crate) git: Arc<Git>,
    pub(crate) refs: Refs,
    pub(crate) writer: Writer,
    pub(crate) repositories: Repositories,
    pub(crate) sessions: Sessions,
    pub(crate) gates: Gates,
    pub(crate) limits: LimitArgs,
    pub(crate) archives: Archives,
    pub(crate) packs: Packs,
    pub(crate) max_push_bytes: u64,
    pub(crate) max_push_objects: u64,
    pub(crate) max_push_refs: usize,
    pub(crate) protection: Protection,
    /// Where the hooks are.
    pub(crate) hooks: Hooks,
    pub(crate) places: Places,
    pub(crate) path_logs: PathLogs,
    /// Upkeep that is going on.
    pub(crate) running: Running,
}

/// Epochs of repositories, as the table has them: this process is the only one that writes them.
pub(crate) struct Places(Cache<RepositoryId, i64>);

impl Default for Places {
    fn default() -> Self {
        Self(Cache::new(PLACES))
    }
}

impl Places {
    /// Forgets a repository that changed its place or is gone.
    pub(crate) fn forget(&self, id: RepositoryId) {
        self.0.invalidate(&id);
    }
}

impl std::ops::Deref for App {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl App {
    /// Shares the parts.
    pub(crate) fn new(parts: Parts) -> Self {
        Self(Arc::new(parts))
    }

    /// The caller's grant to do to a repository on this store what it is calling.
    pub(crate) async fn authorize(&self, caller: &Caller, id: i64) -> Result<Arc<Grant>, Failure> {
        self.authorize_as(caller, &caller.operation, id).await
    }

    /// The same for one of the bodies. Nobody writes to what follows a remote.
    pub(crate) async fn authorize_as(&self, caller: &Caller, operation: &str, id: i64) -> Result<Arc<Grant>, Failure> {
        let id = RepositoryId(id);
        let grant = self.access.authorize_as(caller, operation, id).await?;
        if grant.store != self.store.name() {
            return Err(GitError::WrongStore.into());
        }
        self.check_epoch(id, grant.epoch).await?;
        if grant.is_mirror && !READS.contains(&operation) {
            return Err(GitError::MirrorReadOnly.into());
        }
        Ok(grant)
    }

    /// Refuses an epoch that is older than the newest one seen; remembers a newer one.
    async fn check_epoch(&self, id: RepositoryId, epoch: i64) -> Result<(), Failure> {
        let known = match self.places.0.get(&id) {
            Some(known) => known,
            None => {
                let placed = self.repositories.find(id).await?.ok_or(GitError::RepositoryNotFound)?;
                let known = self.placed_here(&placed)?;
                self.places.0.insert(id, known);
                known
            }
        };
        if epoch < known {
            return Err(GitError::WrongStore.into());
        }
        if epoch > known {
            self.repositories.raise(id, epoch).await?;
            self.places.0.insert(id, epoch);
        }
        Ok(())
    }

    fn placed_here(&self, placed: &Placed) -> Result<i64, GitError> {
        if placed.deleted {
            return Err(GitError::RepositoryNotFound);
        }
        if placed.store != self.store.name() { Err(GitError::WrongStore) } else { Ok(placed.epoch) }
    }
}
