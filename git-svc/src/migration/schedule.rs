//! The order of jobs: migrations as they were asked for, mirrors as they are due. Of each kind a bounded number runs at once, and no
//! more rows than that are in memory.

use std::time::Duration;

use ferrite_kit::{Lifecycle, micros};
use futures_util::{StreamExt as _, stream::FuturesUnordered};

use super::MigrationService;
use crate::{
    db::{MigrationRow, MirrorRow},
    types::rpc_error::RpcError,
};

/// Time between two looks for jobs without a wake-up.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// Time between two counts of what waits, and deletions of old rows.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(30);
/// Time that rows of migrations stay after the end: 7 days, in microseconds.
const RETENTION_US: i64 = 7 * 24 * 3600 * 1_000_000;
/// Longest delay after failures, in seconds, unless the interval is longer.
const MAX_RETRY_SECS: i64 = 24 * 3600;
/// The part of a delay by which it is made longer or shorter at random.
const JITTER: f64 = 0.1;

impl MigrationService {
    /// Runs migrations and syncs until the process stops. Running ones are stopped then, and begun again by the next process.
    pub(crate) async fn run(self, life: Lifecycle) {
        tokio::join!(self.run_migrations(&life), self.run_syncs(&life), self.look_after_rows(&life));
    }

    async fn run_migrations(&self, life: &Lifecycle) {
        let mut jobs = FuturesUnordered::new();
        loop {
            let free = self.options.migrations_at_once.saturating_sub(jobs.len());
            let rows = if free > 0 { self.next_migrations(free, jobs.len()).await } else { Vec::new() };
            jobs.extend(rows.into_iter().map(|row| self.migrate(row)));
            tokio::select! {
                () = life.stopping() => break,
                Some(()) = jobs.next(), if !jobs.is_empty() => {}
                () = self.new_migration.notified() => {}
                () = tokio::time::sleep(POLL_INTERVAL) => {}
            }
        }
        while jobs.next().await.is_some() {}
    }

    async fn run_syncs(&self, life: &Lifecycle) {
        let mut jobs = FuturesUnordered::new();
        loop {
            let free = self.options.syncs_at_once.saturating_sub(jobs.len());
            let rows = if free > 0 { self.next_syncs(free, jobs.len()).await } else { Vec::new() };
            jobs.extend(rows.into_iter().map(|row| self.sync(row)));
            metrics::gauge!("ferrite_git_mirror_syncs_running").set(as_f64(jobs.len()));
            tokio::select! {
                () = life.stopping() => break,
                Some(()) = jobs.next(), if !jobs.is_empty() => {}
                () = self.new_sync.notified() => {}
                () = tokio::time::sleep(POLL_INTERVAL) => {}
            }
        }
        while jobs.next().await.is_some() {}
    }

    /// Returns up to `free` migrations that wait and have no job. `running` are among the first that wait.
    async fn next_migrations(&self, free: usize, running: usize) -> Vec<MigrationRow> {
        let mut rows = logged(self.migrations.waiting(self.store.name(), free + running).await);
        rows.retain(|row| !self.running.has(row.id()));
        rows.truncate(free);
        rows
    }

    /// Returns up to `free` mirrors that are due and have no job, longest overdue first. `running` are among the first that are due.
    async fn next_syncs(&self, free: usize, running: usize) -> Vec<MirrorRow> {
        let due = self.mirrors.due(self.store.name(), self.clock.now_us(), free + running).await;
        let mut rows = logged(due);
        rows.retain(|row| !self.running.has(row.id()));
        rows.truncate(free);
        rows
    }

    /// Counts what waits, and deletes the rows of migrations that ended long ago.
    async fn look_after_rows(&self, life: &Lifecycle) {
        while !life.is_stopping() {
            if let Err(error) = self.look_after_rows_once().await {
                tracing::warn!(%error, "migrations cannot be counted");
            }
            life.pause(UPKEEP_INTERVAL).await;
        }
    }

    async fn look_after_rows_once(&self) -> Result<(), RpcError> {
        let (store, now) = (self.store.name(), self.clock.now_us());
        let waiting = self.migrations.count_waiting(store).await?;
        metrics::gauge!("ferrite_git_migrations_waiting").set(as_f64(usize::try_from(waiting).unwrap_or(0)));
        let due = self.mirrors.count_due(store, now).await?;
        metrics::gauge!("ferrite_git_mirrors_due").set(as_f64(usize::try_from(due).unwrap_or(0)));
        self.migrations.purge(now - RETENTION_US).await?;
        Ok(())
    }
}

/// Returns the time of the next sync: the interval from `from_us`, twice as long for each failure but at most a day, and up to a tenth
/// more or less, so that mirrors that were set up together do not stay together.
pub(super) fn next_sync_us(from_us: i64, interval_secs: i64, failures: i64) -> i64 {
    let doubled = interval_secs.saturating_mul(1 << failures.clamp(0, 20));
    let delay = Duration::from_secs(doubled.min(MAX_RETRY_SECS.max(interval_secs)).max(0).unsigned_abs());
    let factor = 1.0 + JITTER * (2.0 * rand::random::<f64>() - 1.0);
    from_us.saturating_add(micros(delay.mul_f64(factor)))
}

fn logged<T, E: std::fmt::Display>(rows: Result<Vec<T>, E>) -> Vec<T> {
    rows.unwrap_or_else(|error| {
        tracing::warn!(%error, "jobs cannot be looked for");
        Vec::new()
    })
}

fn as_f64(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn syncs_are_spread_and_failures_put_them_off_up_to_a_day() {
        let delay = |interval, failures| (next_sync_us(0, interval, failures) / 1_000_000) as f64;
        for _ in 0..1000 {
            for (interval, failures, expected) in [
                (28_800, 0, 28_800.0),
                (600, 1, 1200.0),
                (600, 3, 4800.0),
                (600, 60, 86_400.0),
                (864_000, 0, 864_000.0),
                (864_000, 5, 864_000.0),
            ] {
                let ratio = delay(interval, failures) / expected;
                assert!((0.899..=1.101).contains(&ratio), "{interval} {failures} {ratio}");
            }
        }
        let different: std::collections::HashSet<_> = (0..100).map(|_| next_sync_us(0, 28_800, 0)).collect();
        assert!(different.len() > 90);
    }
}
