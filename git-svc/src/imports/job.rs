//! One import: fetch into a repository in `incoming/`, publish it, announce it.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use ferrite_proto::{
    events::{MigrationEnded, event::Fact},
    id::RepositoryId,
};
use git_store::{
    repo::{refs, refs::RefEntry},
    types::{
        error::GitError,
        name::{BranchName, RefName},
    },
};
use git2::{ObjectType, Oid, Repository};
use tokio::time::Instant;

use super::{
    ImportService, Inner, advertisement::RemoteRefs, error::FetchError, fetch::FetchPlan, mirror_changed,
    progress::Progress, remote::Remote, schedule::next_sync_us,
};
use crate::{
    db::{
        ImportPhase, ImportRow, ImportState, ImportTable, MaintenanceTable, MirrorRow, MirrorTable, RepositoryTable,
        count,
    },
    maintenance::running::JobHandle,
    rpc_error::RpcError,
};

/// Attempts to fetch a repository that keeps changing.
const MAX_ATTEMPTS: usize = 3;
/// Delay before an import or sync is restarted because its end could not be recorded.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

impl ImportService {
    /// Runs an import. Records and announces its end.
    pub(super) async fn import(&self, job: JobHandle, row: ImportRow) {
        let limit = self.fetch_limit(row.id(), self.options.max_bytes);
        let Some(limit) = job.unless_stopped(limit).await else { return };
        let progress = Arc::new(Progress::new(limit.bytes));
        self.0.progress.lock().insert(row.id(), Arc::clone(&progress));
        let start = Instant::now();
        let outcome = self.run_import(&job, &row, &progress).await.map_err(|error| limit.explain(error));
        let label = outcome.as_ref().map_or_else(FetchError::label, |_| "done");
        metrics::counter!("ferrite_git_migrations_total", "result" => label).increment(1);
        let elapsed_ms = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
        let (objects, bytes) = (progress.objects(), progress.budget.received());
        tracing::info!(repo.id = row.repository_id, outcome = label, elapsed_ms, objects, bytes, "import");
        let recorded = match outcome {
            Ok(()) | Err(FetchError::Stopped) => Ok(()),
            Err(error) => self.fail(&job, &row, &progress, &error).await,
        };
        self.0.progress.lock().remove(&row.id());
        if let Err(error) = recorded {
            tracing::warn!(repo.id = row.repository_id, %error, cause = error.causes(), "cannot record the end of an import");
            self.pause_before_retry(&job).await;
        }
    }

    /// Waits after an end that could not be recorded, because the job restarts then.
    pub(super) async fn pause_before_retry(&self, job: &JobHandle) {
        tokio::select! {
            () = self.life.stopping() => {}
            () = job.stopped() => {}
            () = tokio::time::sleep(RETRY_INTERVAL) => {}
        }
    }

    async fn run_import(&self, job: &JobHandle, row: &ImportRow, progress: &Progress) -> Result<(), FetchError> {
        let id = row.id();
        if self.unless_stopped(job, self.repositories.find(id)).await?.is_some_and(|row| row.deleted) {
            return Err(FetchError::Stopped);
        }
        // An earlier process may have published the repository and stopped before it recorded that.
        if !self.store.exists(id) {
            self.fetch_and_publish(job, row, progress).await?;
        }
        let _guard = self.unless_stopped(job, self.updater.lock(id)).await?;
        self.finish(row, progress).await
    }

    async fn fetch_and_publish(&self, job: &JobHandle, row: &ImportRow, progress: &Progress) -> Result<(), FetchError> {
        let (id, policy, protocols) = (row.id(), self.client.policy(), self.options.protocols);
        let sealed = row.credentials.as_deref();
        let remote = Remote::stored(id, &row.url, sealed, &self.sealer, policy, protocols)?;
        let branch = BranchName::parse(row.default_branch.as_bytes()).map_err(|_| FetchError::BadRefs)?;
        let build = Build { job, progress, branch: &branch, begin: Instant::now() };
        let incoming = self.build(&build, id, &remote, None).await?;
        let published = match self.bring_wiki(&build, row, &remote).await {
            Ok(()) => self.publish(job, row, id, false, &incoming).await,
            Err(error) => Err(error),
        };
        if published.is_err() {
            self.remove(incoming).await;
        }
        published
    }

    /// Fetches and publishes the wiki, if there is one. A remote that does not respond for a wiki
    /// has none.
    async fn bring_wiki(&self, build: &Build<'_>, row: &ImportRow, remote: &Remote) -> Result<(), FetchError> {
        let (Some(id), Some(remote)) = (row.wiki(), remote.wiki()) else { return Ok(()) };
        if self.store.exists(id) {
            return Ok(());
        }
        let found = match self.unless_stopped(build.job, self.discovery.discover(&remote)).await {
            Ok(found) => found,
            Err(FetchError::Stopped) => return Err(FetchError::Stopped),
            Err(error) => {
                tracing::info!(repo.id = row.repository_id, reason = error.label(), "no wiki was found");
                return Ok(());
            }
        };
        if found.1.refs.is_empty() {
            return Ok(());
        }
        let incoming = self.build(build, id, &remote, Some(found)).await?;
        let published = self.publish(build.job, row, id, true, &incoming).await;
        if published.is_err() {
            self.remove(incoming).await;
        }
        published
    }

    /// Fetches a repository into `incoming/` and returns its directory. `found` has its refs if
    /// they are known.
    async fn build(
        &self,
        build: &Build<'_>,
        id: RepositoryId,
        remote: &Remote,
        mut found: Option<(Remote, RemoteRefs)>,
    ) -> Result<PathBuf, FetchError> {
        for attempt in 1.. {
            let (remote, remote_refs) = match found.take() {
                Some(found) => found,
                None => self.unless_stopped(build.job, self.discovery.discover(remote)).await?,
            };
            let branch = remote_refs.default_branch(build.branch);
            let incoming = self.pool.run_blocking(move |store| store.begin_build(id, &branch, 0)).await?;
            match self.fill(build, id, &remote, remote_refs, &incoming).await {
                Ok(()) => return Ok(incoming),
                Err(FetchError::Changed) if attempt < MAX_ATTEMPTS => self.remove(incoming).await,
                Err(error) => {
                    self.remove(incoming).await;
                    return Err(error);
                }
            }
        }
        Err(FetchError::Changed)
    }

    /// Receives the objects of a repository in `incoming/` and writes its refs.
    async fn fill(
        &self,
        build: &Build<'_>,
        id: RepositoryId,
        remote: &Remote,
        remote_refs: RemoteRefs,
        incoming: &Path,
    ) -> Result<(), FetchError> {
        let mut wants: Vec<_> = remote_refs.refs.iter().map(|(_, id)| *id).collect();
        wants.sort_unstable();
        wants.dedup();
        let begin = build.begin;
        let plan = FetchPlan { id, remote, repository: incoming, quarantine: None, wants: &wants, begin };
        self.fetch(&plan, build.progress, build.job).await?;
        let folder = incoming.to_owned();
        let written = self.pool.run_blocking(move |_| write_refs(&folder, &remote_refs.refs));
        if written.await? { Ok(()) } else { Err(FetchError::BadRefs) }
    }

    /// Moves a repository from `incoming/` into place, unless it was deleted meanwhile.
    async fn publish(
        &self,
        job: &JobHandle,
        row: &ImportRow,
        id: RepositoryId,
        is_wiki: bool,
        incoming: &Path,
    ) -> Result<(), FetchError> {
        let _guard = self.unless_stopped(job, self.updater.lock(id)).await?;
        let (store, now) = (self.store.name(), self.clock.now_us());
        if self.repositories.place(id, store, row.epoch, is_wiki, now).await?.deleted {
            return Err(FetchError::Stopped);
        }
        let incoming = incoming.to_owned();
        Ok(self.pool.run_blocking(move |store| store.publish_built(id, &incoming)).await?)
    }

    /// Records and announces the end of an import whose repository is published. The caller must
    /// hold the write lock.
    async fn finish(&self, row: &ImportRow, progress: &Progress) -> Result<(), FetchError> {
        let id = row.id();
        let (head, size) = self.refs.head_and_size(id).await?;
        let is_empty = self.refs.is_empty(id).await?;
        let wiki = row.wiki().filter(|wiki| self.store.exists(*wiki));
        let state = ImportState { phase: ImportPhase::Done, ..progress.state() };
        let now = self.clock.now_us();
        let mut tx = self.db.begin().await?;
        if !ImportTable::finish(&mut tx, id, &state, now).await? {
            tx.rollback().await?;
            return Err(FetchError::Stopped);
        }
        let Some(next) = RepositoryTable::next_number(&mut tx, id).await? else { return Err(FetchError::Stopped) };
        MaintenanceTable::changed(&mut tx, id, next.number, now).await?;
        if let Some(wiki) = wiki
            && let Some(next) = RepositoryTable::next_number(&mut tx, wiki).await?
        {
            MaintenanceTable::changed(&mut tx, wiki, next.number, now).await?;
        }
        let ended = Fact::MigrationEnded(MigrationEnded {
            error: String::new(),
            size_bytes: count(size),
            is_empty,
            default_branch: head.branch.as_bytes().to_vec(),
            number: next.number,
            object_count: count(state.objects),
            received_bytes: count(state.bytes),
            has_wiki: wiki.is_some(),
        });
        self.updater.announce(&mut tx, id, ended).await?;
        if row.mirror_interval_secs > 0 {
            let mirror = new_mirror(row, wiki, now);
            MirrorTable::add(&mut tx, self.store.name(), &mirror).await?;
            self.updater.announce(&mut tx, id, mirror_changed(&mirror)).await?;
        }
        tx.commit().await?;
        self.updater.wake_relay();
        self.updater.changed().note(id);
        Ok(())
    }

    /// Removes the remains of a failed import, and records and announces its end.
    async fn fail(
        &self,
        job: &JobHandle,
        row: &ImportRow,
        progress: &Progress,
        error: &FetchError,
    ) -> Result<(), RpcError> {
        error.log();
        let (id, now) = (row.id(), self.clock.now_us());
        let state = ImportState { phase: ImportPhase::Failed, error: error.to_string(), ..progress.state() };
        // If the lock is not available, the repository is being deleted by a task that holds it and
        // waits for this job.
        let Some(guard) = job.unless_stopped(self.updater.lock(id)).await.transpose()? else { return Ok(()) };
        let mut tx = self.db.begin().await?;
        if !ImportTable::finish(&mut tx, id, &state, now).await? {
            return Ok(tx.rollback().await?);
        }
        let repositories: Vec<_> = [id].into_iter().chain(row.wiki()).collect();
        for id in &repositories {
            RepositoryTable::delete(&mut tx, *id, self.store.name(), now).await?;
            MaintenanceTable::forget(&mut tx, *id).await?;
        }
        let (object_count, received_bytes) = (count(state.objects), count(state.bytes));
        let ended = MigrationEnded { error: state.error, object_count, received_bytes, ..MigrationEnded::default() };
        self.updater.announce(&mut tx, id, Fact::MigrationEnded(ended)).await?;
        tx.commit().await?;
        self.updater.wake_relay();
        for id in repositories {
            self.pool.run_blocking(move |store| store.delete(id)).await?;
        }
        drop(guard);
        Ok(())
    }
}

impl Inner {
    /// Removes a directory in `incoming/`. If that fails, the next start removes it.
    pub(super) async fn remove(&self, incoming: PathBuf) {
        if let Err(error) = self.pool.run_blocking(move |store| store.remove_incoming(&incoming)).await {
            tracing::warn!(%error, "cannot remove a directory in `incoming`; the next start will");
        }
    }
}

/// Shared by the fetches of one import.
struct Build<'a> {
    job: &'a JobHandle,
    progress: &'a Progress,
    /// Branch for HEAD if the remote names none.
    branch: &'a BranchName,
    begin: Instant,
}

/// Returns the row of a mirror after its first fetch.
fn new_mirror(row: &ImportRow, wiki: Option<RepositoryId>, now_us: i64) -> MirrorRow {
    MirrorRow {
        repository_id: row.repository_id,
        user_id: row.user_id,
        url: row.url.clone(),
        credentials: row.credentials.clone(),
        wiki_id: wiki.map_or(0, |id| id.0),
        interval_secs: row.mirror_interval_secs,
        next_sync_us: next_sync_us(now_us, row.mirror_interval_secs, 0),
        last_sync_us: now_us,
        last_error: String::new(),
        failure_count: 0,
        version: 1,
    }
}

/// Writes the refs of a repository in `incoming/`. Returns `false` if some cannot be written,
/// because objects are missing or a branch does not point to a commit. Blocking.
fn write_refs(repository: &Path, remote_refs: &[(RefName, Oid)]) -> Result<bool, GitError> {
    let repo = Repository::open_bare(repository)?;
    let entries = refs::describe(&repo, remote_refs)?;
    let entries: Vec<RefEntry> = entries.into_iter().flatten().collect();
    if entries.len() < remote_refs.len() || !entries.iter().all(is_storable) {
        return Ok(false);
    }
    if !entries.is_empty() {
        refs::write_packed(repository, &entries)?;
    }
    Ok(true)
}

/// Returns whether git allows the ref to point to its object: branches to commits, tags to anything
/// that exists.
pub(super) fn is_storable(entry: &RefEntry) -> bool {
    let is_branch = entry.name.as_bytes().starts_with(b"refs/heads/");
    let is_commit = entry.kind == ObjectType::Commit && entry.peeled.is_none();
    if is_branch { is_commit } else { entry.kind != ObjectType::Any }
}
