//! One maintenance job: measure a repository, plan, run the planned git commands.
//!
//! Pushes continue meanwhile. The write lock is held only for short steps: packing refs, deciding
//! about expired objects, and publishing the new size.

use std::{
    fs,
    path::Path,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use ferrite_core::micros;
use ferrite_proto::id::RepositoryId;
use git_store::{
    disk::{
        durable::sync_all,
        packs::pack_folder,
        repositories::RepositoryStore,
        usage::{DiskUsage, loose_refs},
    },
    git::command::maintenance_task::{BASE_NICENESS, MaintenanceTask, NICENESS},
    repo::{deltas, refs},
    types::error::GitError,
};

use super::{
    MaintenanceService, lock,
    plan::{JobPlan, Repack, next_us},
    reservations::Reservation,
    running::JobHandle,
    saved_packs,
};
use crate::{db::MaintenanceRow, rpc_error::RpcError};

/// Lock files below `objects/` that only maintenance commands create, so they are stale while none
/// runs.
const MAINTENANCE_LOCKS: &[&str] = &["pack/multi-pack-index.lock", "info/commit-graph.lock"];
/// Timeout of `git pack-refs`, which runs under the repository's write lock.
const PACK_REFS_TIMEOUT: Duration = Duration::from_secs(30);
/// Attempts of a repack or a check that fails because of concurrent pushes.
pub(super) const MAX_ATTEMPTS: usize = 4;
/// Longest delay after failures. The delay starts with the interval between two rounds and doubles
/// with each failure.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(24 * 3600);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JobOutcome {
    Idle,
    /// A git process of an earlier service process still holds the maintenance lock.
    Busy,
    /// The repository is being deleted, or the service is stopping.
    Stopped,
    Done,
}

/// State of a repository at the start of a job, and its maintenance lock.
struct Inspection {
    lock: fs::File,
    usage: DiskUsage,
    loose_refs: u64,
    reservation: Reservation,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The row says that the repository is due.
    Due,
    /// A consolidation found that the base is outgrown.
    OutgrownBase,
}

/// Why a job ended early. `Stopped` is an error so that `?` can return it.
pub(super) enum JobError {
    Stopped,
    Failed(RpcError),
}

impl<E: Into<RpcError>> From<E> for JobError {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

impl MaintenanceService {
    /// Runs a job on a repository unless one is running. Records a failure or a postponement.
    pub(super) async fn maintain(&self, row: MaintenanceRow) {
        self.maintain_for(row, Cause::Due).await;
    }

    /// Like [`Self::maintain`], for a given cause.
    pub(super) async fn maintain_for(&self, row: MaintenanceRow, cause: Cause) {
        let Some(job) = self.running.begin(RepositoryId(row.repository_id)) else { return };
        let id = job.id;
        let recorded = match self.run_job(&job, row, cause).await {
            Ok(JobOutcome::Busy) => self.maintenance.later(id, self.after(self.options.interval)).await,
            Ok(JobOutcome::Idle | JobOutcome::Stopped | JobOutcome::Done) => Ok(()),
            Err(failure) => {
                tracing::warn!(repo.id = %id, error = %failure, failures = row.failures + 1, "maintenance failed");
                if matches!(failure, RpcError::Git(GitError::Command { .. })) {
                    self.mark_suspect(id).await;
                }
                let doubled = self.options.interval.saturating_mul(1 << row.failures.clamp(0, 16));
                self.maintenance.failed(id, self.after(doubled.min(MAX_RETRY_DELAY))).await
            }
        };
        if let Err(error) = recorded {
            tracing::warn!(repo.id = %id, %error, "cannot record maintenance");
        }
    }

    /// Returns the time `pause` from now, in microseconds since 1970.
    pub(super) fn after(&self, pause: Duration) -> i64 {
        self.clock.now_us().saturating_add(micros(pause))
    }

    /// Measures, plans, executes and records what was done. The caller records failures.
    pub(super) async fn run_job(
        &self,
        job: &JobHandle,
        row: MaintenanceRow,
        cause: Cause,
    ) -> Result<JobOutcome, RpcError> {
        let id = job.id;
        // A deletion is recorded before the job is stopped, so jobs that start later see the
        // record.
        if self.repositories.find(id).await?.is_none_or(|row| row.deleted) || !self.store.exists(id) {
            return Ok(JobOutcome::Idle);
        }
        let inspection = match self.inspect(job).await {
            Ok(Some(inspection)) => inspection,
            Ok(None) => return Ok(JobOutcome::Busy),
            Err(JobError::Stopped) => return Ok(JobOutcome::Stopped),
            Err(JobError::Failed(failure)) => return Err(failure),
        };
        let mut plan = JobPlan::of(&row, &inspection.usage, inspection.loose_refs, &self.options, self.clock.now_us());
        if cause == Cause::OutgrownBase {
            if !inspection.usage.has_outgrown_base() {
                return Ok(JobOutcome::Idle);
            }
            plan = plan.of_base(&row);
        }
        if plan.is_empty() {
            let next = next_us(&row, &inspection.usage, &self.options);
            self.maintenance.done(&row, row.number, next).await?;
            return Ok(JobOutcome::Idle);
        }
        let start = Instant::now();
        let outcome = self.execute(job, plan, row, &inspection).await;
        let (name, kind, elapsed) = (outcome_label(&outcome), plan.kind(), start.elapsed());
        record_job(kind, name, elapsed);
        let (usage, elapsed_ms) = (&inspection.usage, u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX));
        let (packs, recent_packs, loose) = (usage.base.packs, usage.recent.packs, usage.loose);
        let (bytes, refs) = (usage.bytes, plan.refs);
        tracing::info!(
            repo.id = %id, kind, refs, outcome = name, elapsed_ms, packs, recent_packs, loose, bytes, "maintenance"
        );
        match outcome {
            Ok(()) => Ok(JobOutcome::Done),
            Err(JobError::Stopped) => Ok(JobOutcome::Stopped),
            Err(JobError::Failed(failure)) => Err(failure),
        }
    }

    /// Takes the maintenance lock of a repository, measures it, and starts a reservation of its
    /// packs. Returns `None` if another process holds the lock.
    async fn inspect(&self, job: &JobHandle) -> Result<Option<Inspection>, JobError> {
        let (id, packs) = (job.id, self.reservations.of(job.id));
        // Lets a running consolidation finish first. None checks the maintenance lock meanwhile.
        let _guard = job.unless_stopped(packs.lock()).await.ok_or(JobError::Stopped)?;
        let (limit, percent) = (self.options.loose_refs, self.options.cruft_percent);
        let found = self.pool.run_blocking(move |store| inspect(store, id, limit, percent)).await?;
        let begin = |(lock, usage, loose_refs)| {
            let reservation = Reservation::begin(Arc::clone(&packs));
            Inspection { lock, usage, loose_refs, reservation }
        };
        Ok(found.map(begin))
    }

    /// Executes a plan and records what was done.
    async fn execute(
        &self,
        job: &JobHandle,
        plan: JobPlan,
        mut row: MaintenanceRow,
        inspection: &Inspection,
    ) -> Result<(), JobError> {
        let (id, age) = (job.id, self.leftover_age);
        if plan.check {
            self.check(job, &mut row, &inspection.lock).await?;
        }
        if !plan.changes() {
            let next = next_us(&row, &inspection.usage, &self.options);
            return Ok(self.maintenance.done(&row, row.number, next).await?);
        }
        self.pool
            .run_blocking(move |store| {
                store.remove_abandoned_files(id, age);
                Ok(())
            })
            .await?;
        if plan.refs {
            self.pack_refs(job, &inspection.lock).await?;
        }
        match plan.repack {
            None => {}
            Some(Repack::Recent) => self.consolidate_in_job(job).await?,
            Some(Repack::Base) => self.renew_base(job, &inspection.lock, &inspection.reservation).await?,
            Some(Repack::Full) => self.full(job, inspection).await?,
        }
        if plan.graph && plan.repack != Some(Repack::Full) {
            self.run_task(job, MaintenanceTask::CommitGraph, &inspection.lock, BASE_NICENESS).await?;
        }
        let usage = self.finish(job).await?;
        let now = self.clock.now_us();
        if matches!(plan.repack, Some(Repack::Base | Repack::Full)) {
            (row.packed_number, row.packed_us) = (row.number, now);
            row.graph_number = row.number;
        }
        if plan.repack == Some(Repack::Full) {
            (row.full_number, row.full_us) = (row.number, now);
        }
        if plan.repack.is_some() {
            row.loose_left = i64::try_from(usage.loose).unwrap_or(i64::MAX);
        }
        let next = next_us(&row, &usage, &self.options);
        Ok(self.maintenance.done(&row, row.number, next).await?)
    }

    /// Runs a git command to its end. Kills it when the job is stopped or the step takes too long.
    pub(super) async fn run_task(
        &self,
        job: &JobHandle,
        task: MaintenanceTask<'_>,
        lock: &fs::File,
        niceness: i32,
    ) -> Result<(), JobError> {
        let child = self.git.run_task(&self.store.path(job.id), task, lock, niceness)?;
        self.output_of(job, child, &[], self.options.deadline).await.map(drop)
    }

    async fn pack_refs(&self, job: &JobHandle, lock: &fs::File) -> Result<(), JobError> {
        let id = job.id;
        let _guard = self.locked(job).await?;
        self.pool.run_blocking(move |store| Ok(refs::remove_stale_lock(&store.path(id)))).await?;
        let child = self.git.run_task(&self.store.path(id), MaintenanceTask::PackRefs, lock, NICENESS)?;
        self.output_of(job, child, &[], PACK_REFS_TIMEOUT).await.map(drop)
    }

    /// Waits for the repository's write lock, or until the job is stopped: a deletion holds the
    /// lock while it waits for this job.
    pub(super) async fn locked(&self, job: &JobHandle) -> Result<crate::ref_updates::WriteGuard, JobError> {
        Ok(job.unless_stopped(self.updater.lock(job.id)).await.ok_or(JobError::Stopped)??)
    }

    /// Repacks all objects. Writes the commit-graph from the refs first, so that it names no commit
    /// that expires in the repack.
    async fn full(&self, job: &JobHandle, inspection: &Inspection) -> Result<(), JobError> {
        let id = job.id;
        let before = self.last_number(job).await?;
        self.run_task(job, MaintenanceTask::CommitGraph, &inspection.lock, NICENESS).await?;
        if inspection.usage.loose > 0 {
            // Packs loose objects. Unreachable ones count as just touched.
            self.consolidate_in_job(job).await?;
        }
        // Packs that arrive later stay as they are.
        let packs = self.reserve_all(job, &inspection.reservation).await?;
        let bytes = inspection.usage.bytes;
        let trash = self.pool.run_blocking(move |store| {
            check_free_space(store, bytes)?;
            touch_packs(&store.path(id))?;
            saved_packs::save(&store.path(id), &packs)?;
            store.make_trash(id)
        });
        let trash = trash.await?;
        let task = MaintenanceTask::Full { expire: self.options.expire_after, expired: &trash };
        let outcome = self.run_task(job, task, &inspection.lock, NICENESS).await;
        let path = self.store.path(id);
        if outcome.is_err() {
            // The command may already have moved some objects.
            let restore = move |_: &_| restore_if_changed(&trash, &path, true).and(saved_packs::restore(&path));
            self.pool.run_blocking(restore).await?;
            return outcome;
        }
        let guard = self.locked(job).await?;
        let changed = self.last_number(job).await? != before;
        let settle = move |_: &_| {
            restore_if_changed(&trash, &path, changed)?;
            if changed { saved_packs::restore(&path) } else { saved_packs::discard(&path) }
        };
        self.pool.run_blocking(settle).await?;
        drop(guard);
        // A repository from an earlier version has no mark yet. Creating it may take a while, and a
        // deletion does not wait for it.
        let marked = job.unless_stopped(self.pool.run_blocking(move |store| deltas::mark(store, id, u64::MAX))).await;
        if let Some(Err(error)) = marked {
            tracing::warn!(repo.id = %id, %error, "cannot search the packs for large deltas");
        }
        Ok(())
    }

    /// Returns the newest journal number of the job's repository.
    pub(super) async fn last_number(&self, job: &JobHandle) -> Result<i64, JobError> {
        let row = self.repositories.find(job.id).await?;
        row.map(|row| row.last_number).ok_or(JobError::Stopped)
    }

    /// Syncs the changed directories, publishes the new size, and returns the usage.
    async fn finish(&self, job: &JobHandle) -> Result<DiskUsage, JobError> {
        let id = job.id;
        self.pool
            .run_blocking(move |store| {
                let path = store.path(id);
                sync_all(&[path.join("objects/pack"), path.join("objects/info"), path.join("objects"), path])
            })
            .await?;
        // Open libgit2 handles keep deleted packs open.
        self.pool.forget(id);
        let guard = self.locked(job).await?;
        self.updater.publish_size(&guard).await?;
        let percent = self.options.cruft_percent;
        Ok(self.pool.run_blocking(move |store| usage(store, id, percent)).await?)
    }
}

/// Returns whether indexing failed because no covered pack has some object reachable from a ref.
/// git then writes neither index nor bitmap.
pub(super) fn has_lost_a_race(failure: &RpcError) -> bool {
    matches!(failure, RpcError::Git(GitError::Command { stderr, .. }) if stderr.contains("could not write multi-pack bitmap"))
}

pub(super) fn outcome_label<T>(outcome: &Result<T, JobError>) -> &'static str {
    match outcome {
        Ok(_) => "ok",
        Err(JobError::Stopped) => "stopped",
        Err(JobError::Failed(RpcError::Git(GitError::TimedOut { .. }))) => "timed_out",
        Err(JobError::Failed(_)) => "failed",
    }
}

pub(super) fn record_job(kind: &'static str, outcome: &'static str, elapsed: Duration) {
    metrics::counter!("ferrite_git_upkeep_jobs_total", "kind" => kind, "outcome" => outcome).increment(1);
    metrics::histogram!("ferrite_git_upkeep_duration_seconds", "kind" => kind).record(elapsed);
}

/// Takes the maintenance lock of a repository, removes what killed commands left, and measures the
/// repository and its loose refs. Returns `None` if another process holds the lock. Blocking.
fn inspect(
    store: &RepositoryStore,
    id: RepositoryId,
    limit: u64,
    percent: u64,
) -> Result<Option<(fs::File, DiskUsage, u64)>, GitError> {
    let path = store.path(id);
    let Some(lock) = lock::take(&path)? else { return Ok(None) };
    remove_leftovers(&path);
    saved_packs::restore(&path)?;
    Ok(Some((lock, usage(store, id, percent)?, loose_refs(&path, limit))))
}

/// Removes the temporary files of a killed repack. Must run before the next repack: git mistakes an
/// unfinished pack for a complete one and removes loose objects that are in it, which would then be
/// lost with the pack.
pub(super) fn remove_leftovers(repository: &Path) {
    let objects = repository.join("objects");
    for lock in MAINTENANCE_LOCKS {
        // Usually absent. If a lock file cannot be removed, git fails with a message that names it.
        drop(fs::remove_file(objects.join(lock)));
    }
    for entry in fs::read_dir(objects.join("pack")).into_iter().flatten().flatten() {
        // Only `git repack` uses this prefix.
        if entry.file_name().to_string_lossy().starts_with(".tmp-") {
            drop(fs::remove_file(entry.path()));
        }
    }
}

/// Measures a repository, including the age of its unreachable objects if they take more than
/// `percent`. Blocking.
fn usage(store: &RepositoryStore, id: RepositoryId, percent: u64) -> Result<DiskUsage, GitError> {
    let mut usage = store.measure(id)?;
    usage.date_cruft(&store.path(id), percent);
    Ok(usage)
}

/// Checks that the disk has room for a full repack of `bytes`. Old and new packs exist at once, so
/// `bytes` plus a quarter must be free.
fn check_free_space(store: &RepositoryStore, bytes: u64) -> Result<(), GitError> {
    let disk = rustix::fs::statvfs(store.root()).map_err(|error| GitError::io("measuring the disk")(error.into()))?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    if free > bytes.saturating_add(bytes / 4) {
        return Ok(());
    }
    Err(GitError::Internal(format!("not enough disk space to repack {bytes} bytes: {free} bytes are free")))
}

/// Sets the modification time of all packs except cruft packs to now. git uses it as the age of
/// objects that become unreachable, so they expire `expire_after` after maintenance first found
/// them unreachable, however old they are.
fn touch_packs(repository: &Path) -> Result<(), GitError> {
    let entries = fs::read_dir(pack_folder(repository)).map_err(GitError::io("listing packs"))?;
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.extension().is_some_and(|extension| extension == "pack") && !path.with_extension("mtimes").exists() {
            let touched = fs::File::open(&path).and_then(|file| file.set_modified(SystemTime::now()));
            touched.map_err(GitError::io("touching a pack"))?;
        }
    }
    Ok(())
}

/// Moves expired objects from `trash` back into the repository if refs `changed` meanwhile, because
/// an update may use them again. Otherwise they stay in the trash. Removes an empty `trash`.
pub(super) fn restore_if_changed(trash: &Path, repository: &Path, changed: bool) -> Result<(), GitError> {
    let list = |what: &'static str| fs::read_dir(trash).map_err(GitError::io(what));
    if changed {
        let mut files: Vec<_> = list("listing expired objects")?.flatten().collect();
        // git finds a pack by its index, so the index is moved last.
        files.sort_by_key(|entry| entry.path().extension().is_some_and(|extension| extension == "idx"));
        for entry in files {
            let place = pack_folder(repository).join(entry.file_name());
            fs::rename(entry.path(), place).map_err(GitError::io("restoring expired objects"))?;
        }
    }
    if list("listing expired objects")?.next().is_none() {
        fs::remove_dir(trash).map_err(GitError::io("removing an empty directory"))?;
    }
    Ok(())
}
