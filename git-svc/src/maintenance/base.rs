//! Rebuilds the base of a repository: combines packs and loose objects geometrically, and covers
//! them with one multi-pack index with a bitmap. Packs that arrive meanwhile are consolidated and
//! stay outside the base.

use std::{fs, path::Path};

use git_store::{
    disk::packs::{Pack, PackRole, list_packs},
    git::command::maintenance_task::{BASE_NICENESS, MaintenanceTask},
    types::error::GitError,
};

use super::{
    MaintenanceService,
    combine::{CombinePlan, ScratchFolder},
    consolidation::remove_inputs,
    job::{JobError, MAX_ATTEMPTS, has_lost_a_race},
    reservations::Reservation,
    running::JobHandle,
};

/// File with the ids of all refs, in the job's directory.
const TIPS_FILE: &str = "tips";

impl MaintenanceService {
    /// Rebuilds the base. Retries if it lost a race against a push.
    pub(super) async fn renew_base(
        &self,
        job: &JobHandle,
        lock: &fs::File,
        reservation: &Reservation,
    ) -> Result<(), JobError> {
        for _ in 1..MAX_ATTEMPTS {
            match self.try_renew_base(job, lock, reservation).await {
                Err(JobError::Failed(failure)) if has_lost_a_race(&failure) => {
                    tracing::debug!(repo.id = %job.id, error = %failure, "retrying to build a base");
                }
                outcome => return outcome,
            }
        }
        self.try_renew_base(job, lock, reservation).await
    }

    async fn try_renew_base(
        &self,
        job: &JobHandle,
        lock: &fs::File,
        reservation: &Reservation,
    ) -> Result<(), JobError> {
        let id = job.id;
        // Read the refs first: everything they reach is then in the packs and loose objects listed
        // later.
        let index = self.on_disk(id, |path| ScratchFolder::new(path, "index")).await?;
        let tips = index.path().join(TIPS_FILE);
        let file = fs::File::create(&tips).map_err(GitError::io("listing refs"))?;
        self.run_task(job, MaintenanceTask::ListTips(&file), lock, BASE_NICENESS).await?;
        let inputs = self.combine_all(job, reservation).await?;
        let packs = self.reserve_all(job, reservation).await?;
        let covered: Vec<_> = packs.iter().filter(|pack| !inputs.contains(&pack.name)).collect();
        if let Some(largest) = covered.iter().rfind(|pack| pack.role != PackRole::Cruft) {
            let names: String = covered.iter().map(|pack| format!("{}.idx\n", pack.name)).collect();
            let task = MaintenanceTask::WriteIndex { tips: &tips, preferred: &format!("{}.idx", largest.name) };
            let child = self.git.run_task(&self.store.path(id), task, lock, BASE_NICENESS)?;
            self.output_of(job, child, names.as_bytes(), self.options.deadline).await?;
        }
        let _guard = reservation.lock().await;
        // Not earlier, because the old index names them.
        Ok(self.on_disk(id, move |path| remove_inputs(path, &inputs, &[])).await?)
    }

    /// Combines packs of the base and the recent tier, and loose objects. Returns the names of
    /// packs to remove.
    async fn combine_all(&self, job: &JobHandle, reservation: &Reservation) -> Result<Vec<String>, JobError> {
        let id = job.id;
        let packs = self.reserve_all(job, reservation).await?;
        let loose = self.pool.run_blocking(move |store| store.measure(id)).await?.loose;
        let is_packable = |pack: &Pack| matches!(pack.role, PackRole::Base | PackRole::Recent);
        let plan = CombinePlan::of(&packs, loose, is_packable);
        if plan.is_empty() {
            return Ok(Vec::new());
        }
        let folder = self.on_disk(id, |path| ScratchFolder::new(path, "base")).await?;
        self.write_combined(job, &plan, &folder, BASE_NICENESS).await?;
        let _guard = reservation.lock().await;
        let new = self.install_combined(job, &plan, folder).await?;
        Ok(plan.inputs.into_iter().filter(|name| !new.contains(name)).collect())
    }

    pub(super) async fn reserve_all(&self, job: &JobHandle, reservation: &Reservation) -> Result<Vec<Pack>, JobError> {
        let _guard = job.unless_stopped(reservation.lock()).await.ok_or(JobError::Stopped)?;
        let packs = self.on_disk(job.id, |path: &Path| list_packs(path)).await?;
        reservation.reserve(&packs);
        Ok(packs)
    }
}
