//! Background maintenance of the repositories of a store: packs objects and refs, writes indexes,
//! checks objects, and removes what killed processes left.

mod base;
mod check;
mod combine;
mod consolidation;
mod job;
mod lock;
pub(crate) mod options;
mod plan;
mod reservations;
pub(crate) mod running;
mod saved_packs;

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use ferrite_core::{Clock, Lifecycle};
use ferrite_db::Db;
use ferrite_proto::id::RepositoryId;
use futures_util::{StreamExt as _, stream::FuturesUnordered};
use git_store::{disk::repositories::RepositoryStore, git::command::Git, repo::pool::Pool};
use tokio::time::MissedTickBehavior;

use self::{options::MaintenanceOptions, reservations::PackReservations, running::RunningJobs};
use crate::{
    admission::backlog::Backlogs,
    db::{MaintenanceRow, MaintenanceTable, RepositoryTable},
    ref_updates::RefUpdater,
    rpc_error::RpcError,
    transfer::push::HookSessions,
};

/// Added to the longest transfer time before a job deletes git's temporary files.
const LEFTOVER_MARGIN: Duration = Duration::from_secs(3600);
const TRASH_INTERVAL: Duration = Duration::from_secs(3600);

pub(crate) struct MaintenanceParts {
    pub(crate) clock: Clock,
    pub(crate) db: Db,
    pub(crate) store: Arc<RepositoryStore>,
    pub(crate) pool: Pool,
    pub(crate) git: Arc<Git>,
    pub(crate) updater: RefUpdater,
    pub(crate) backlogs: Backlogs,
    /// Running pushes, whose files must not be removed.
    pub(crate) sessions: HookSessions,
}

/// Finds repositories that need maintenance and runs their jobs.
pub(crate) struct MaintenanceService {
    clock: Clock,
    store: Arc<RepositoryStore>,
    pool: Pool,
    git: Arc<Git>,
    updater: RefUpdater,
    sessions: HookSessions,
    repositories: RepositoryTable,
    maintenance: MaintenanceTable,
    running: RunningJobs,
    /// Consolidations, which run beside the jobs in `running`.
    consolidating: RunningJobs,
    reservations: PackReservations,
    backlogs: Backlogs,
    options: MaintenanceOptions,
    transfer_timeout: Duration,
    /// Minimum age of files to remove, so that no process can still use them.
    leftover_age: Duration,
    /// Repositories that lacked objects at their last check; negative while unknown.
    broken: AtomicI64,
}

impl MaintenanceService {
    /// Files that a transfer may still use, for up to `transfer_timeout`, are left alone.
    pub(crate) fn new(parts: MaintenanceParts, options: MaintenanceOptions, transfer_timeout: Duration) -> Self {
        let MaintenanceParts { clock, db, store, pool, git, updater, backlogs, sessions } = parts;
        let (repositories, maintenance) = (RepositoryTable::new(db.clone()), MaintenanceTable::new(db));
        let (running, broken) = (RunningJobs::default(), AtomicI64::new(-1));
        Self {
            clock,
            store,
            pool,
            git,
            updater,
            sessions,
            repositories,
            maintenance,
            running,
            consolidating: RunningJobs::default(),
            reservations: PackReservations::default(),
            backlogs,
            options,
            transfer_timeout,
            leftover_age: transfer_timeout.saturating_add(LEFTOVER_MARGIN),
            broken,
        }
    }

    /// Stops the jobs of a repository that is being deleted, and waits until they end.
    pub(crate) async fn stop(&self, id: RepositoryId) {
        self.running.stop(id).await;
        self.consolidating.stop(id).await;
        self.backlogs.forget(id);
    }

    /// Runs the jobs of due repositories once per interval, until the process stops. Running jobs
    /// are stopped then.
    pub(crate) async fn run(&self, life: Lifecycle) {
        if self.options.interval.is_zero() {
            return;
        }
        let mut ticks = tokio::time::interval(self.options.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut queue, mut jobs) = (VecDeque::new(), FuturesUnordered::new());
        let max_jobs = MaintenanceOptions::max_jobs();
        loop {
            while jobs.len() < max_jobs
                && let Some(row) = queue.pop_front()
            {
                jobs.push(self.maintain(row));
            }
            metrics::gauge!("ferrite_git_upkeep_queue").set(f64::from(u32::try_from(queue.len()).unwrap_or(u32::MAX)));
            tokio::select! {
                () = life.stopping() => break,
                _ = ticks.tick(), if queue.is_empty() => queue = self.due().await,
                Some(()) = jobs.next(), if !jobs.is_empty() => {}
            }
        }
        self.running.stop_all();
        while jobs.next().await.is_some() {}
    }

    /// Returns the due repositories without a running job, longest overdue first.
    async fn due(&self) -> VecDeque<MaintenanceRow> {
        // A broken repository may have been deleted since the last count.
        if self.broken.load(Ordering::Relaxed) != 0 {
            self.report_broken().await;
        }
        match self.maintenance.due(self.store.name(), self.clock.now_us()).await {
            // A running job is about to change the row of its repository.
            Ok(rows) => rows.into_iter().filter(|row| !self.running.has(RepositoryId(row.repository_id))).collect(),
            Err(error) => {
                tracing::warn!(%error, "cannot plan maintenance");
                VecDeque::new()
            }
        }
    }

    /// Removes what killed processes left in any repository, once. Then deletes old trash every
    /// hour, until the process stops.
    pub(crate) async fn clean_up_in_background(&self, life: Lifecycle) {
        if let Err(error) = self.clean_up_all(&life).await {
            tracing::warn!(%error, "cannot look for files of killed processes");
        }
        while life.pause(TRASH_INTERVAL).await {
            let now = std::time::SystemTime::now();
            if let Err(error) = self.pool.run_blocking(move |store| store.empty_trash(now)).await {
                tracing::warn!(%error, "cannot empty the trash");
            }
        }
    }

    async fn clean_up_all(&self, life: &Lifecycle) -> Result<(), RpcError> {
        let mut last = RepositoryId(0);
        loop {
            let part = self.maintenance.list_after(self.store.name(), last).await?;
            let Some(end) = part.last() else { return Ok(()) };
            last = *end;
            for id in part {
                if life.is_stopping() {
                    return Ok(());
                }
                let (age, before) = (self.transfer_timeout, self.sessions.oldest(id));
                self.pool
                    .run_blocking(move |store| {
                        store.remove_abandoned_files(id, age);
                        store.remove_quarantines(id, before)
                    })
                    .await?;
            }
        }
    }
}

#[cfg(test)]
mod tests;
