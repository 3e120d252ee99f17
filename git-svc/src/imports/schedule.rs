//! Schedules jobs: accounts take turns (`turns`). Within an account, imports run in order of
//! request and mirrors by due time; a mirror belongs to the account that set it up. The number of
//! running jobs of each kind is limited, and only their rows are in memory.

use std::time::Duration;

use ferrite_core::{Lifecycle, micros};
use ferrite_proto::id::RepositoryId;
use futures_util::{StreamExt as _, stream::FuturesUnordered};
use tokio::time::Instant;

use super::{ImportService, turns::Turns};
use crate::{
    db::{ImportRow, MirrorRow},
    maintenance::running::JobHandle,
    rpc_error::RpcError,
};

/// Interval of looking for jobs without a wake-up.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// How long the count of waiting jobs by account is reused, unless new jobs arrive.
const COUNT_INTERVAL: Duration = Duration::from_secs(1);
/// Interval of counting waiting jobs and deleting old rows.
const ROWS_INTERVAL: Duration = Duration::from_secs(30);
/// How long rows of finished imports are kept: 7 days, in microseconds.
const RETENTION_US: i64 = 7 * 24 * 3600 * 1_000_000;
/// Longest delay after failures, in seconds, unless the interval is longer.
const MAX_RETRY_SECS: i64 = 24 * 3600;
/// Random variation of a delay, as a fraction.
const JITTER: f64 = 0.1;

impl ImportService {
    /// Runs imports and syncs until the process stops. Running jobs are stopped then, and restarted
    /// by the next process.
    pub(crate) async fn run(self, life: Lifecycle) {
        tokio::join!(self.run_imports(&life), self.run_syncs(&life), self.look_after_rows(&life));
    }

    async fn run_imports(&self, life: &Lifecycle) {
        let (mut turns, mut jobs) = (self.turns(self.options.imports_at_once), FuturesUnordered::new());
        let mut counted: Option<Instant> = None;
        loop {
            if counted.is_none_or(|at| at.elapsed() >= COUNT_INTERVAL) {
                turns.count(logged(self.imports.count_by_account(self.store.name()).await));
                counted = Some(Instant::now());
            }
            while let Some(account) = turns.next(Instant::now()) {
                match self.next_import(account, turns.running_of(account)).await {
                    Some((job, row)) => {
                        let (id, own) = (job.id, self.clone());
                        turns.begin(id, account, Instant::now());
                        jobs.push(spawn_job(life, id, async move { own.import(job, row).await }));
                    }
                    None => turns.none_waits(account),
                }
            }
            metrics::gauge!("ferrite_git_extra_jobs", "kind" => "migration").set(as_f64(turns.extra()));
            tokio::select! {
                () = life.stopping() => break,
                Some(id) = jobs.next(), if !jobs.is_empty() => turns.end(id),
                () = self.new_import.notified() => counted = None,
                () = tokio::time::sleep(POLL_INTERVAL) => counted = None,
            }
        }
        while jobs.next().await.is_some() {}
    }

    async fn run_syncs(&self, life: &Lifecycle) {
        let (mut turns, mut jobs) = (self.turns(self.options.syncs_at_once), FuturesUnordered::new());
        let mut counted: Option<Instant> = None;
        loop {
            if counted.is_none_or(|at| at.elapsed() >= COUNT_INTERVAL) {
                let due = self.mirrors.count_due_by_account(self.store.name(), self.clock.now_us());
                turns.count(logged(due.await));
                counted = Some(Instant::now());
            }
            while let Some(account) = turns.next(Instant::now()) {
                match self.next_sync(account, turns.running_of(account)).await {
                    Some((job, row)) => {
                        let (id, own) = (job.id, self.clone());
                        turns.begin(id, account, Instant::now());
                        jobs.push(spawn_job(life, id, async move { own.sync(job, row).await }));
                    }
                    None => turns.none_waits(account),
                }
            }
            metrics::gauge!("ferrite_git_mirror_syncs_running").set(as_f64(jobs.len()));
            metrics::gauge!("ferrite_git_extra_jobs", "kind" => "sync").set(as_f64(turns.extra()));
            tokio::select! {
                () = life.stopping() => break,
                Some(id) = jobs.next(), if !jobs.is_empty() => turns.end(id),
                () = self.new_sync.notified() => counted = None,
                () = tokio::time::sleep(POLL_INTERVAL) => counted = None,
            }
        }
        while jobs.next().await.is_some() {}
    }

    fn turns(&self, places: usize) -> Turns {
        Turns::new(places, self.options.slow_after)
    }

    /// Starts the oldest waiting import of an account. `running` of its unfinished imports run
    /// already.
    async fn next_import(&self, account: i64, running: usize) -> Option<(JobHandle, ImportRow)> {
        let rows = logged(self.imports.waiting(self.store.name(), account, running + 1).await);
        rows.into_iter().find_map(|row| Some((self.running.begin(row.id())?, row)))
    }

    /// Starts the sync of the account's longest overdue mirror. `running` of its due mirrors are
    /// being synced already.
    async fn next_sync(&self, account: i64, running: usize) -> Option<(JobHandle, MirrorRow)> {
        let due = self.mirrors.due(self.store.name(), account, self.clock.now_us(), running + 1);
        logged(due.await).into_iter().find_map(|row| Some((self.running.begin(row.id())?, row)))
    }

    /// Counts waiting jobs, and deletes the rows of imports that ended long ago.
    async fn look_after_rows(&self, life: &Lifecycle) {
        while !life.is_stopping() {
            if let Err(error) = self.look_after_rows_once().await {
                tracing::warn!(%error, "cannot count imports");
            }
            life.pause(ROWS_INTERVAL).await;
        }
    }

    async fn look_after_rows_once(&self) -> Result<(), RpcError> {
        let (store, now) = (self.store.name(), self.clock.now_us());
        let (waiting, _) = self.imports.count_waiting(store, 0).await?;
        metrics::gauge!("ferrite_git_migrations_waiting").set(as_f64(usize::try_from(waiting).unwrap_or(0)));
        let due = self.mirrors.count_due(store, now).await?;
        metrics::gauge!("ferrite_git_mirrors_due").set(as_f64(usize::try_from(due).unwrap_or(0)));
        self.imports.purge(now - RETENTION_US).await?;
        Ok(())
    }
}

/// Spawns a job as a task, so that it continues while the scheduler waits for the database. The
/// returned future waits for its end.
fn spawn_job<F>(life: &Lifecycle, id: RepositoryId, job: F) -> impl Future<Output = RepositoryId> + use<F>
where
    F: Future<Output = ()> + Send + 'static,
{
    let task = life.spawn("fetch job", job);
    async move {
        if let Err(error) = task.await {
            tracing::error!(repo.id = %id, %error, "an import or sync panicked or was aborted");
            // Otherwise it would restart at once.
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        id
    }
}

/// Returns the time of the next sync: one interval after `from_us`, doubled for each failure up to
/// a day, plus or minus up to a tenth so that mirrors set up together spread out.
pub(super) fn next_sync_us(from_us: i64, interval_secs: i64, failures: i64) -> i64 {
    let doubled = interval_secs.saturating_mul(1 << failures.clamp(0, 20));
    let delay = Duration::from_secs(doubled.min(MAX_RETRY_SECS.max(interval_secs)).max(0).unsigned_abs());
    let factor = 1.0 + JITTER * (2.0 * rand::random::<f64>() - 1.0);
    from_us.saturating_add(micros(delay.mul_f64(factor)))
}

fn logged<T, E: std::fmt::Display>(rows: Result<Vec<T>, E>) -> Vec<T> {
    rows.unwrap_or_else(|error| {
        tracing::warn!(%error, "cannot look for jobs");
        Vec::new()
    })
}

fn as_f64(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_job_goes_on_while_its_schedule_waits_for_something_else() {
        let life = Lifecycle::new(Duration::from_secs(1));
        let (is_done, done) = tokio::sync::oneshot::channel();
        let ended = spawn_job(&life, RepositoryId(1), async move { is_done.send(()).unwrap() });
        tokio::time::timeout(Duration::from_secs(10), done).await.expect("it is not polled").unwrap();
        assert_eq!(ended.await, RepositoryId(1));
        let ended = spawn_job(&life, RepositoryId(2), async { panic!("a job that panics ends alone") });
        assert_eq!(ended.await, RepositoryId(2));
    }

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
