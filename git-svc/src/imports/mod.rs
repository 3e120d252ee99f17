//! Repositories from other hosts: imports, and mirrors that follow their remote.
//!
//! An import is fetched into a hidden repository and published once it is complete. A sync of a
//! mirror receives objects into a quarantine, then applies the difference as ref updates, like a
//! push. Requests are rows, so jobs restart with the process. Two jobs never run on one repository:
//! only this process uses the store, and it tracks its jobs.

mod advertisement;
mod discovery;
mod error;
mod fetch;
mod job;
mod meter;
pub(crate) mod options;
mod progress;
mod proxy;
mod remote;
mod schedule;
mod sync;
mod turns;

use std::{collections::HashMap, sync::Arc, time::Duration};

use ferrite_core::{Clock, Lifecycle, Secret, sealing::Sealer};
use ferrite_db::{Db, idempotency::IdempotencyKey};
use ferrite_outbound::{Client, SendError};
use ferrite_proto::{
    MAX_MIRROR_INTERVAL_SECS, MIN_MIRROR_INTERVAL_SECS,
    events::{MirrorChanged, event::Fact},
    git::UpdateMirrorResponse,
    grant::ByteQuota,
    id::RepositoryId,
    repo::MirrorState,
};
use ferrite_rpc::auth::Authorizer;
use git_store::{
    disk::repositories::RepositoryStore,
    git::command::Git,
    repo::{pool::Pool, refs::Refs},
    types::{error::GitError, name::BranchName},
};
use parking_lot::Mutex;
use tokio::{sync::Notify, time::timeout};

use self::{
    discovery::Discovery,
    error::FetchError,
    options::ImportOptions,
    progress::Progress,
    remote::{Login, Remote},
};
use crate::{
    db::{ImportPhase, ImportRow, ImportState, ImportTable, MirrorRow, MirrorTable, RepositoryTable},
    maintenance::running::{JobHandle, RunningJobs},
    ref_updates::RefUpdater,
    rpc_error::RpcError,
    transfer::push::{HookSessions, Hooks},
};

/// Longest time that a sync request waits to resolve the remote's name.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) struct ImportParts {
    pub(crate) clock: Clock,
    pub(crate) db: Db,
    pub(crate) life: Lifecycle,
    pub(crate) store: Arc<RepositoryStore>,
    pub(crate) pool: Pool,
    pub(crate) git: Arc<Git>,
    pub(crate) refs: Refs,
    pub(crate) updater: RefUpdater,
    pub(crate) sessions: HookSessions,
    pub(crate) hooks: Hooks,
    pub(crate) client: Client,
    pub(crate) sealer: Sealer,
    pub(crate) authorizer: Authorizer,
}

/// Fetches repositories from other hosts. Clones share everything.
#[derive(Clone)]
pub(crate) struct ImportService(Arc<Inner>);

pub(crate) struct Inner {
    clock: Clock,
    db: Db,
    life: Lifecycle,
    store: Arc<RepositoryStore>,
    pool: Pool,
    git: Arc<Git>,
    refs: Refs,
    updater: RefUpdater,
    sessions: HookSessions,
    hooks: Hooks,
    client: Client,
    sealer: Sealer,
    authorizer: Authorizer,
    options: ImportOptions,
    discovery: Discovery,
    repositories: RepositoryTable,
    imports: ImportTable,
    mirrors: MirrorTable,
    running: RunningJobs,
    progress: Mutex<HashMap<RepositoryId, Arc<Progress>>>,
    /// Wakes the schedulers of imports and of mirrors.
    new_import: Notify,
    new_sync: Notify,
}

#[derive(Clone, Debug)]
pub(crate) struct NewImport {
    pub(crate) id: RepositoryId,
    pub(crate) epoch: i64,
    pub(crate) user: i64,
    pub(crate) default_branch: BranchName,
    pub(crate) url: String,
    pub(crate) username: String,
    pub(crate) password: Secret,
    /// Sync interval of a mirror; 0 for a one-time import.
    pub(crate) interval_secs: i64,
    pub(crate) wiki: Option<RepositoryId>,
}

impl std::ops::Deref for ImportService {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

/// Limit on the bytes that a fetch may receive.
#[derive(Clone, Copy, Debug)]
struct FetchLimit {
    bytes: u64,
    /// The owner's quota, if it is what limits the fetch.
    quota: Option<ByteQuota>,
}

impl FetchLimit {
    /// Turns an error about size into one that names the quota, if the quota was the limit.
    fn explain(self, error: FetchError) -> FetchError {
        match (error, self.quota) {
            (FetchError::TooLarge { .. }, Some(quota)) => {
                metrics::counter!("ferrite_quota_refused_total", "kind" => "bytes").increment(1);
                FetchError::Quota { used: quota.used, limit: quota.limit }
            }
            (error, _) => error,
        }
    }
}

impl ImportService {
    /// Returns the byte limit of a fetch into a repository: `bytes`, or what the owner's quota
    /// leaves. If repo-svc does not respond, it checks the quota later, when it learns the size.
    async fn fetch_limit(&self, id: RepositoryId, bytes: u64) -> FetchLimit {
        let quota = match self.authorizer.storage_quota(id).await {
            Ok(quota) => quota.filter(|quota| quota.left() < bytes),
            Err(error) => {
                tracing::debug!(repo.id = %id, %error, "cannot get the quota of the owner");
                None
            }
        };
        FetchLimit { bytes: quota.map_or(bytes, ByteQuota::left), quota }
    }

    pub(crate) fn new(parts: ImportParts, options: ImportOptions) -> Self {
        let (protocols, timeout) = (options.protocols, options.idle);
        Self(Arc::new(Inner {
            discovery: Discovery { client: parts.client.clone(), protocols, timeout },
            repositories: RepositoryTable::new(parts.db.clone()),
            imports: ImportTable::new(parts.db.clone()),
            mirrors: MirrorTable::new(parts.db.clone()),
            running: RunningJobs::default(),
            progress: Mutex::default(),
            new_import: Notify::new(),
            new_sync: Notify::new(),
            clock: parts.clock,
            db: parts.db,
            life: parts.life,
            store: parts.store,
            pool: parts.pool,
            git: parts.git,
            refs: parts.refs,
            updater: parts.updater,
            sessions: parts.sessions,
            hooks: parts.hooks,
            client: parts.client,
            sealer: parts.sealer,
            authorizer: parts.authorizer,
            options,
        }))
    }

    /// Queues an import. Does nothing if the repository already has one, even a finished one.
    ///
    /// Fails with `Invalid` for a field, `TooManyImports` or `TooManyImportsOfUser`.
    pub(crate) async fn start(&self, new: NewImport) -> Result<(), RpcError> {
        if self.imports.find(new.id).await?.is_some() {
            return Ok(());
        }
        let is_given = !new.username.is_empty() || !new.password.expose().is_empty();
        let login = is_given.then_some(Login { username: new.username, password: new.password });
        let remote = Remote::parse(&new.url, login, self.client.policy(), self.options.protocols)?;
        if new.interval_secs != 0 {
            check_interval("mirror_interval_seconds", new.interval_secs)?;
        }
        let (waiting, own) = self.imports.count_waiting(self.store.name(), new.user).await?;
        if waiting >= self.options.max_waiting {
            return Err(GitError::TooManyImports.into());
        }
        let limit = self.options.max_waiting_of_user;
        if own >= limit {
            return Err(GitError::TooManyImportsOfUser { limit }.into());
        }
        let row = ImportRow {
            epoch: new.epoch,
            user_id: new.user,
            default_branch: new.default_branch.to_string(),
            credentials: remote.seal_login(new.id, &self.sealer)?,
            mirror_interval_secs: new.interval_secs,
            wiki_id: new.wiki.map_or(0, |id| id.0),
            ..ImportRow::queued(new.id, self.store.name(), remote.url(), self.clock.now_us())
        };
        self.imports.add(&row).await?;
        self.new_import.notify_one();
        Ok(())
    }

    pub(crate) async fn state(&self, id: RepositoryId) -> Result<ImportState, RpcError> {
        let row = self.imports.find(id).await?.ok_or(GitError::ImportNotFound)?;
        if row.finished_us == 0
            && let Some(progress) = self.progress.lock().get(&id)
        {
            return Ok(progress.state());
        }
        let count = |number: i64| u64::try_from(number).unwrap_or(0);
        // An import started by an earlier process waits for its turn again.
        let phase = if row.finished_us == 0 { ImportPhase::Queued } else { row.phase() };
        Ok(ImportState { phase, objects: count(row.object_count), bytes: count(row.received_bytes), error: row.error })
    }

    /// Returns the wiki's repository id of an import; `None` if there is no such import, or it has
    /// no wiki.
    pub(crate) async fn wiki_of(&self, id: RepositoryId) -> Result<Option<RepositoryId>, RpcError> {
        Ok(self.imports.find(id).await?.and_then(|row| row.wiki()))
    }

    /// Makes a mirror due now, unless a sync is due or running already. Fails with `Invalid` (field
    /// `url`) if the remote's address is no longer permitted.
    pub(crate) async fn sync_soon(&self, id: RepositoryId) -> Result<(), RpcError> {
        let row = self.mirrors.find(id).await?.ok_or(GitError::NotAMirror)?;
        let remote = Remote::parse(&row.url, None, self.client.policy(), self.options.protocols)?;
        // A name that cannot be resolved makes the sync fail, which is reported there.
        let resolved = timeout(RESOLVE_TIMEOUT, self.client.resolve(remote.server())).await;
        if matches!(resolved, Ok(Err(SendError::RefusedAddress))) {
            return Err(GitError::invalid("url", "invalid", FetchError::RefusedAddress.to_string()).into());
        }
        if !self.running.has(id) {
            self.mirrors.hasten(id, self.clock.now_us()).await?;
            self.new_sync.notify_one();
        }
        Ok(())
    }

    /// Changes the interval of a mirror. The next sync is one interval after the last one. The
    /// response is stored under `key`.
    pub(crate) async fn set_interval(
        &self,
        id: RepositoryId,
        interval_secs: i64,
        key: Option<&IdempotencyKey>,
    ) -> Result<UpdateMirrorResponse, RpcError> {
        let row = self.mirrors.find(id).await?.ok_or(GitError::NotAMirror)?;
        check_interval("interval_seconds", interval_secs)?;
        let (response, is_new) = (UpdateMirrorResponse {}, row.interval_secs != interval_secs);
        if !is_new && key.is_none() {
            return Ok(response);
        }
        let now = self.clock.now_us();
        let mut tx = self.db.begin().await?;
        if is_new {
            let next = schedule::next_sync_us(row.last_sync_us.max(0), interval_secs, 0).max(now);
            let row = MirrorTable::reschedule(&mut tx, id, interval_secs, next).await?.ok_or(GitError::NotAMirror)?;
            self.updater.announce(&mut tx, id, mirror_changed(&row)).await?;
        }
        if let Some(key) = key {
            key.store(&mut tx, &response, now).await?;
        }
        tx.commit().await?;
        self.updater.wake_relay();
        Ok(response)
    }

    /// Stops the job of a repository that is being deleted, and waits until it ends.
    pub(crate) async fn stop(&self, id: RepositoryId) {
        self.running.stop(id).await;
    }
}

impl Inner {
    /// Waits for `work`, or until the job has to stop.
    async fn unless_stopped<T, E, F>(&self, job: &JobHandle, work: F) -> Result<T, FetchError>
    where
        E: Into<FetchError>,
        F: Future<Output = Result<T, E>>,
    {
        tokio::select! {
            outcome = work => outcome.map_err(Into::into),
            () = job.stopped() => Err(FetchError::Stopped),
            () = self.life.stopping() => Err(FetchError::Stopped),
        }
    }
}

fn check_interval(field: &str, interval_secs: i64) -> Result<(), GitError> {
    if (MIN_MIRROR_INTERVAL_SECS..=MAX_MIRROR_INTERVAL_SECS).contains(&interval_secs) {
        return Ok(());
    }
    Err(GitError::invalid(field, "invalid", "must be between 10 minutes and 365 days"))
}

/// Returns the event with the state of a mirror.
fn mirror_changed(row: &MirrorRow) -> Fact {
    let time = |us: i64| (us > 0).then(|| ferrite_core::timestamp(us));
    Fact::MirrorChanged(MirrorChanged {
        state: Some(MirrorState {
            interval_seconds: row.interval_secs,
            last_sync_time: time(row.last_sync_us),
            next_sync_time: time(row.next_sync_us),
            last_error: row.last_error.clone(),
        }),
        version: row.version,
    })
}
