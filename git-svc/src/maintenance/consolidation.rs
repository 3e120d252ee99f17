//! Consolidation: combines loose objects and packs newer than the base, soon after they were
//! written. It walks no history and leaves the base with its index and bitmap as it is, so the cost
//! per object is logarithmic in their number.
//!
//! Runs beside long jobs on the same repository, whose packs it leaves alone.

use std::{path::Path, time::Instant};

use ferrite_core::Lifecycle;
use ferrite_proto::id::RepositoryId;
use futures_util::{StreamExt as _, stream::FuturesUnordered};
use git_store::{
    disk::{
        packs::{Pack, PackRole, list_packs, remove_pack},
        usage::DiskUsage,
    },
    types::error::GitError,
};

use super::{
    MaintenanceService,
    combine::{CombinePlan, ScratchFolder},
    job::{Cause, JobError, outcome_label, record_job},
    lock,
    options::MaintenanceOptions,
    running::JobHandle,
};
use crate::rpc_error::RpcError;

/// Same priority as requests, because reads and writes get slower while a consolidation waits.
const CONSOLIDATION_NICENESS: i32 = 0;

/// The new size is published only if it is below this percentage of the old one, because each write
/// publishes the size anyway.
const PUBLISHED_PERCENT: u64 = 80;

struct Consolidated {
    usage: DiskUsage,
    has_combined: bool,
}

impl MaintenanceService {
    /// Consolidates repositories when their writes make them due, until the process stops.
    pub(crate) async fn consolidate_in_background(&self, life: Lifecycle) {
        let (max_jobs, mut jobs) = (MaintenanceOptions::max_consolidations(), FuturesUnordered::new());
        loop {
            tokio::select! {
                () = life.stopping() => break,
                id = self.backlogs.next(), if jobs.len() < max_jobs => jobs.push(self.consolidate_due(id)),
                Some(()) = jobs.next(), if !jobs.is_empty() => {}
            }
        }
        self.consolidating.stop_all();
        while jobs.next().await.is_some() {}
    }

    /// Rebuilds bases that a consolidation found outgrown, until the process stops.
    pub(crate) async fn renew_bases_in_background(&self, life: Lifecycle) {
        let (max_jobs, mut jobs) = (MaintenanceOptions::max_jobs(), FuturesUnordered::new());
        loop {
            tokio::select! {
                () = life.stopping() => break,
                id = self.backlogs.next_base(), if jobs.len() < max_jobs => jobs.push(self.renew_base_due(id)),
                Some(()) = jobs.next(), if !jobs.is_empty() => {}
            }
        }
        self.running.stop_all();
        while jobs.next().await.is_some() {}
    }

    async fn renew_base_due(&self, id: RepositoryId) {
        match self.maintenance.find(id, self.clock.now_us()).await {
            Ok(Some(row)) => self.maintain_for(row, Cause::OutgrownBase).await,
            // The repository was deleted, or its last job failed recently.
            Ok(None) => {}
            Err(error) => tracing::warn!(repo.id = %id, %error, "cannot plan maintenance"),
        }
    }

    async fn consolidate_due(&self, id: RepositoryId) {
        let Some(job) = self.consolidating.begin(id) else { return self.backlogs.postpone(id) };
        match self.consolidate(&job).await {
            Ok(done) => self.backlogs.consolidated(id, Some((&done.usage, done.has_combined))),
            Err(JobError::Stopped) => self.backlogs.forget(id),
            Err(JobError::Failed(failure)) => {
                tracing::warn!(repo.id = %id, error = %failure, "a consolidation failed");
                if matches!(failure, RpcError::Git(GitError::Command { .. })) {
                    self.mark_suspect(id).await;
                }
                self.backlogs.consolidated(id, None);
            }
        }
    }

    async fn consolidate(&self, job: &JobHandle) -> Result<Consolidated, JobError> {
        let id = job.id;
        // A deletion is recorded before the job is stopped, so jobs that start later see the
        // record.
        if self.repositories.find(id).await?.is_none_or(|row| row.deleted) || !self.store.exists(id) {
            return Err(JobError::Stopped);
        }
        let (start, before) = (Instant::now(), self.pool.run_blocking(move |store| store.size(id)).await?);
        let outcome = self.consolidate_objects(job).await;
        record_job("consolidation", outcome_label(&outcome), start.elapsed());
        if let Ok(Some(plan)) = &outcome {
            let elapsed_ms = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
            tracing::debug!(repo.id = %id, elapsed_ms, packs = plan.inputs.len(), "consolidation");
        }
        let has_combined = outcome?.is_some();
        let usage = self.pool.run_blocking(move |store| store.measure(id)).await?;
        if usage.bytes < before / 100 * PUBLISHED_PERCENT {
            let guard = self.locked(job).await?;
            self.updater.publish_size(&guard).await?;
        }
        Ok(Consolidated { usage, has_combined })
    }

    /// Combines what is due, under the lock on the packs. Returns what was combined; `None` for
    /// nothing.
    async fn consolidate_objects(&self, job: &JobHandle) -> Result<Option<CombinePlan>, JobError> {
        let (id, packs) = (job.id, self.reservations.of(job.id));
        let guard = job.unless_stopped(packs.lock()).await.ok_or(JobError::Stopped)?;
        if !packs.has_reservation() && self.on_disk(id, has_foreign_job).await? {
            return Ok(None);
        }
        // Writes already counted their loose objects. Measuring again would read 256 directories.
        let loose = self.pool.run_blocking(move |store| store.usage(id)).await?.loose;
        let listed = self.on_disk(id, list_packs).await?;
        let may_combine = |pack: &Pack| pack.role == PackRole::Recent && !packs.is_reserved(&pack.name);
        let plan = CombinePlan::of(&listed, loose, may_combine);
        if plan.is_empty() {
            return Ok(None);
        }
        let folder = self.on_disk(id, |path| ScratchFolder::new(path, "consolidation")).await?;
        self.write_combined(job, &plan, &folder, CONSOLIDATION_NICENESS).await?;
        let new = self.install_combined(job, &plan, folder).await?;
        let inputs = plan.inputs.clone();
        self.on_disk(id, move |path| remove_inputs(path, &inputs, &new)).await?;
        drop(guard);
        // Open libgit2 handles keep deleted packs open.
        self.pool.forget(id);
        Ok(Some(plan))
    }

    /// Consolidates a repository within a job that holds the maintenance lock and has reserved no
    /// packs.
    pub(super) async fn consolidate_in_job(&self, job: &JobHandle) -> Result<(), JobError> {
        // A running consolidation does the same work.
        let Some(own) = self.consolidating.begin(job.id) else { return Ok(()) };
        job.unless_stopped(self.consolidate_objects(&own)).await.ok_or(JobError::Stopped)?.map(drop)
    }
}

/// Removes packs whose objects are in the `new` packs or in others that stay. Blocking.
pub(super) fn remove_inputs(repository: &Path, inputs: &[String], new: &[String]) -> Result<(), GitError> {
    // Packs are named by content, so a pack combined alone may keep its name.
    for name in inputs.iter().filter(|name| !new.contains(name)) {
        remove_pack(repository, name)?;
    }
    Ok(())
}

/// Returns whether a git process of an earlier service process holds the maintenance lock and may
/// read any pack. Call only while no job of this process holds it. Blocking.
fn has_foreign_job(repository: &Path) -> Result<bool, GitError> {
    Ok(lock::take(repository)?.is_none())
}
