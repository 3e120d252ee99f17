//! Repositories that come from other hosts: imports, and mirrors that follow their remote.
//!
//! An import is fetched into a repository that nobody can reach, and published when it is complete. A sync of a mirror receives objects
//! beside the repository, and then applies the difference as updates of refs like a push. Requests are rows; jobs are begun again after a
//! restart. Two jobs never run on one repository: the process holds the lock of its store, and knows its jobs.
//!
//! Not here: accounts, names and rights (repo-svc), and which addresses may be reached (`ferrite_outbound`).

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

/// Shortest time between two syncs of a mirror, in seconds.
pub(crate) const MIN_INTERVAL_SECS: i64 = 600;
/// Longest time between two syncs of a mirror, in seconds: ten years.
const MAX_INTERVAL_SECS: i64 = 10 * 366 * 24 * 3600;
/// Longest time that a request to sync waits for the resolution of the remote's name.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(5);

/// The parts that imports and mirrors work with.
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

/// Fetches repositories from elsewhere. Clones share everything.
#[derive(Clone)]
pub(crate) struct ImportService(Arc<Inner>);

/// The parts of [`ImportService`].
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
    /// Progress of running imports.
    progress: Mutex<HashMap<RepositoryId, Arc<Progress>>>,
    /// Wakes the schedule of imports, and that of mirrors.
    new_import: Notify,
    new_sync: Notify,
}

/// A request for an import.
#[derive(Clone, Debug)]
pub(crate) struct NewImport {
    pub(crate) id: RepositoryId,
    pub(crate) epoch: i64,
    pub(crate) user: i64,
    pub(crate) default_branch: BranchName,
    pub(crate) url: String,
    pub(crate) username: String,
    pub(crate) password: Secret,
    /// Seconds between syncs of a mirror; 0 for a repository that is fetched once.
    pub(crate) interval_secs: i64,
    pub(crate) wiki: Option<RepositoryId>,
}

impl std::ops::Deref for ImportService {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

/// The most bytes that a fetch may receive.
#[derive(Clone, Copy, Debug)]
struct FetchLimit {
    bytes: u64,
    /// The quota of the owner, if that is what limits the bytes.
    quota: Option<ByteQuota>,
}

impl FetchLimit {
    /// Returns the error of a fetch, which names the quota if that was exceeded.
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
    /// Returns the most bytes that a fetch into a repository may receive: `bytes`, or what the quota of its owner leaves. Without an answer
    /// of repo-svc the quota is checked when it hears of the size.
    async fn fetch_limit(&self, id: RepositoryId, bytes: u64) -> FetchLimit {
        let quota = match self.authorizer.storage_quota(id).await {
            Ok(quota) => quota.filter(|quota| quota.left() < bytes),
            Err(error) => {
                tracing::debug!(repo.id = %id, %error, "the quota of the owner is not known");
                None
            }
        };
        FetchLimit { bytes: quota.map_or(bytes, ByteQuota::left), quota }
    }

    /// A service that keeps `options`.
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

    /// Notes an import, which a job carries out soon. A repository whose import is noted already, or has ended, stays as it is.
    ///
    /// # Errors
    /// `Invalid` with its field, `TooManyImports`, `TooManyImportsOfUser`.
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

    /// Returns how far an import is.
    ///
    /// # Errors
    /// `ImportNotFound`.
    pub(crate) async fn state(&self, id: RepositoryId) -> Result<ImportState, RpcError> {
        let row = self.imports.find(id).await?.ok_or(GitError::ImportNotFound)?;
        if row.finished_us == 0
            && let Some(progress) = self.progress.lock().get(&id)
        {
            return Ok(progress.state());
        }
        let count = |number: i64| u64::try_from(number).unwrap_or(0);
        // One that was begun by an earlier process waits for its turn.
        let phase = if row.finished_us == 0 { ImportPhase::Queued } else { row.phase() };
        Ok(ImportState { phase, objects: count(row.object_count), bytes: count(row.received_bytes), error: row.error })
    }

    /// Returns the id that an import has for the wiki of its repository; `None` if there is no such import, or it brings no wiki.
    pub(crate) async fn wiki_of(&self, id: RepositoryId) -> Result<Option<RepositoryId>, RpcError> {
        Ok(self.imports.find(id).await?.and_then(|row| row.wiki()))
    }

    /// Has a mirror synced soon. A sync that is due or running is joined.
    ///
    /// # Errors
    /// `NotAMirror`; `Invalid` (field `url`) if the remote's address is not permitted now.
    pub(crate) async fn sync_soon(&self, id: RepositoryId) -> Result<(), RpcError> {
        let row = self.mirrors.find(id).await?.ok_or(GitError::NotAMirror)?;
        let remote = Remote::parse(&row.url, None, self.client.policy(), self.options.protocols)?;
        // A name that cannot be resolved now is a failed sync, which is told there.
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

    /// Changes the interval of a mirror; the next sync is one interval after the last one. The response is stored under `key`.
    ///
    /// # Errors
    /// `NotAMirror`; `Invalid` (field `interval_seconds`).
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

    /// Stops the job of a repository that is being deleted, and waits for its end.
    pub(crate) async fn stop(&self, id: RepositoryId) {
        self.running.stop(id).await;
    }
}

impl Inner {
    /// Waits for `work`, or until the job is to stop.
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
    if (MIN_INTERVAL_SECS..=MAX_INTERVAL_SECS).contains(&interval_secs) {
        return Ok(());
    }
    Err(GitError::invalid(field, "invalid", format!("must be from {MIN_INTERVAL_SECS} to {MAX_INTERVAL_SECS}")))
}

/// Returns the event about the state of a mirror.
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
