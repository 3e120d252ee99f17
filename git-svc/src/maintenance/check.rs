//! Runs `git fsck --connectivity-only` to find out whether all objects reachable from refs exist.
//! Missing objects are logged and counted in a gauge, but not repaired.

use std::{fs, sync::atomic::Ordering};

use ferrite_core::micros;
use ferrite_proto::id::RepositoryId;
use git_store::{
    git::command::maintenance_task::{MaintenanceTask, NICENESS},
    types::error::GitError,
};

use super::{
    MaintenanceService,
    job::{JobError, MAX_ATTEMPTS},
    plan::DAY,
    running::JobHandle,
};
use crate::{db::MaintenanceRow, rpc_error::RpcError};

/// Limit on the logged part of git's findings.
const MAX_FINDINGS_CHARS: usize = 2000;

impl MaintenanceService {
    /// Checks a repository. Records the result in `row` and in the database.
    pub(super) async fn check(
        &self,
        job: &JobHandle,
        row: &mut MaintenanceRow,
        lock: &fs::File,
    ) -> Result<(), JobError> {
        let result = self.fsck(job, lock).await?;
        metrics::counter!("ferrite_git_fsck_total", "result" => result).increment(1);
        match result {
            "ok" => (row.checked_us, row.broken) = (self.clock.now_us(), 0),
            "broken" => (row.checked_us, row.broken) = (self.clock.now_us(), 1),
            // No result, so check again in a day.
            _ => row.checked_us = self.before(self.options.check_after.saturating_sub(DAY)),
        }
        self.maintenance.checked(row).await?;
        self.report_broken().await;
        Ok(())
    }

    /// Runs fsck. Returns the metric label: `ok`, `broken`, `failed`, or `disturbed` if refs
    /// changed during every attempt.
    async fn fsck(&self, job: &JobHandle, lock: &fs::File) -> Result<&'static str, JobError> {
        let id = job.id;
        for _ in 0..MAX_ATTEMPTS {
            let before = self.last_number(job).await?;
            match self.run_task(job, MaintenanceTask::Check, lock, NICENESS).await {
                Ok(()) => return Ok("ok"),
                Err(JobError::Failed(RpcError::Git(GitError::Command { status, stderr, .. })))
                    if status.starts_with("exit status") =>
                {
                    // git lists objects before refs, so objects pushed in between seem to be
                    // missing.
                    if self.last_number(job).await? == before {
                        let findings: String = stderr.chars().take(MAX_FINDINGS_CHARS).collect();
                        tracing::error!(repo.id = %id, findings, "objects of a repository are missing or unreadable");
                        return Ok("broken");
                    }
                }
                Err(JobError::Stopped) => return Err(JobError::Stopped),
                Err(JobError::Failed(failure)) => {
                    tracing::warn!(repo.id = %id, error = %failure, "cannot check a repository");
                    return Ok("failed");
                }
            }
        }
        Ok("disturbed")
    }

    /// Schedules a check for the next round, unless the repository was checked within the last day.
    pub(super) async fn mark_suspect(&self, id: RepositoryId) {
        if let Err(error) = self.maintenance.mark_suspect(id, self.before(DAY)).await {
            tracing::warn!(repo.id = %id, %error, "cannot schedule a check");
        }
    }

    /// Returns the time `pause` ago, in microseconds since 1970.
    fn before(&self, pause: std::time::Duration) -> i64 {
        self.clock.now_us().saturating_sub(micros(pause))
    }

    pub(super) async fn report_broken(&self) {
        match self.maintenance.broken(self.store.name()).await {
            Ok(count) => {
                self.broken.store(count, Ordering::Relaxed);
                let count = u32::try_from(count).unwrap_or(u32::MAX);
                metrics::gauge!("ferrite_git_broken_repositories").set(f64::from(count));
            }
            Err(error) => tracing::warn!(%error, "cannot count broken repositories"),
        }
    }
}
