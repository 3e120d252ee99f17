//! Whether all objects of a repository are there that its refs lead to. What is missing is told, by a log line and a gauge; nothing
//! is repaired, and upkeep of other repositories goes on.

use std::{fs, sync::atomic::Ordering};

use ferrite_proto::id::RepositoryId;

use super::{
    Upkeep,
    job::{Halt, TRIES},
    plan::DAY,
    running::Slot,
};
use crate::{command::Chore, error::GitError, failure::Failure, store::Upkept};

/// What is kept of git's findings.
const FINDINGS: usize = 2000;

impl Upkeep {
    /// Looks, and records what came of it.
    pub(super) async fn check(&self, slot: &Slot, row: &mut Upkept, hold: &fs::File) -> Result<(), Halt> {
        let result = self.look_for_all(slot, hold).await?;
        metrics::counter!("ferrite_git_fsck_total", "result" => result).increment(1);
        match result {
            "ok" => (row.checked_us, row.broken) = (self.clock.now_us(), 0),
            "broken" => (row.checked_us, row.broken) = (self.clock.now_us(), 1),
            // As if it were due tomorrow.
            _ => row.checked_us = self.before(self.options.check_after.saturating_sub(DAY)),
        }
        self.maintenance.checked(row).await?;
        self.report_broken().await;
        Ok(())
    }

    async fn look_for_all(&self, slot: &Slot, hold: &fs::File) -> Result<&'static str, Halt> {
        let id = slot.id;
        for _ in 0..TRIES {
            let before = self.number(slot).await?;
            match self.chore_within(slot, Chore::Check, hold, self.options.deadline).await {
                Ok(()) => return Ok("ok"),
                Err(Halt::Failed(Failure::Git(GitError::Command { status, stderr, .. })))
                    if status.starts_with("exit status") =>
                {
                    // git lists objects first and refs later: what came in between seems to be missing.
                    if self.number(slot).await? == before {
                        let findings: String = stderr.chars().take(FINDINGS).collect();
                        tracing::error!(repo.id = %id, findings, "objects of a repository are missing or unreadable");
                        return Ok("broken");
                    }
                }
                Err(Halt::Stopped) => return Err(Halt::Stopped),
                Err(Halt::Failed(failure)) => {
                    tracing::warn!(repo.id = %id, error = %failure, "a repository could not be checked");
                    return Ok("failed");
                }
            }
        }
        Ok("disturbed")
    }

    /// Has a repository checked soon, but not all day long.
    pub(super) async fn doubt(&self, id: RepositoryId) {
        if let Err(error) = self.maintenance.doubt(id, self.before(DAY)).await {
            tracing::warn!(repo.id = %id, %error, "a check cannot be planned");
        }
    }

    fn before(&self, pause: std::time::Duration) -> i64 {
        self.clock.now_us().saturating_sub(i64::try_from(pause.as_micros()).unwrap_or(i64::MAX))
    }

    /// Counts the repositories that were not whole.
    pub(super) async fn report_broken(&self) {
        match self.maintenance.broken(self.store.name()).await {
            Ok(count) => {
                self.broken.store(count, Ordering::Relaxed);
                let count = u32::try_from(count).unwrap_or(u32::MAX);
                metrics::gauge!("ferrite_git_broken_repositories").set(f64::from(count));
            }
            Err(error) => tracing::warn!(%error, "broken repositories cannot be counted"),
        }
    }
}
