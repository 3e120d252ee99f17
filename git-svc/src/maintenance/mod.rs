//! Background maintenance of the repositories of a store: packs objects and refs, writes indexes, checks objects, removes
//! leftovers of killed processes.
//!
//! Not here: the git commands ([`MaintenanceTask`](crate::git::command::MaintenanceTask)) and the measurements
//! ([`usage`](crate::disk::usage)).

mod check;
mod job;
mod plan;
mod running;

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use ferrite_kit::{Clock, Lifecycle};
use ferrite_proto::id::RepositoryId;
use futures_util::{StreamExt as _, stream::FuturesUnordered};
use tokio::time::MissedTickBehavior;

pub(crate) use self::running::RunningJobs;
use crate::{
    config::maintenance::MaintenanceArgs,
    db::{MaintenanceRow, MaintenanceTable, RepositoryTable},
    disk::repositories::RepositoryStore,
    git::command::Git,
    ref_updates::RefUpdater,
    repo::pool::Pool,
    state::AppState,
    types::rpc_error::RpcError,
};

/// Extra age of git's temporary files, beyond the longest transfer, before a job deletes them.
const LEFTOVER_MARGIN: Duration = Duration::from_secs(3600);
/// Time between two deletions of old trash.
const TRASH_INTERVAL: Duration = Duration::from_secs(3600);

/// Finds repositories that need maintenance and runs their jobs.
pub(crate) struct MaintenanceService {
    clock: Clock,
    store: Arc<RepositoryStore>,
    pool: Pool,
    git: Arc<Git>,
    updater: RefUpdater,
    repositories: RepositoryTable,
    maintenance: MaintenanceTable,
    running: RunningJobs,
    options: MaintenanceArgs,
    /// Minimum age of temporary files before deletion, because another process may still write them.
    abandoned: Duration,
    /// Repositories that lacked objects at their last check; negative while unknown.
    broken: AtomicI64,
}

impl MaintenanceService {
    /// Creates the maintenance of all repositories of the store.
    pub(crate) fn new(app: &AppState, options: MaintenanceArgs) -> Self {
        Self {
            clock: app.clock.clone(),
            store: Arc::clone(&app.store),
            pool: app.pool.clone(),
            git: Arc::clone(&app.git),
            updater: app.updater.clone(),
            repositories: app.repositories.clone(),
            maintenance: MaintenanceTable::new(app.db.clone()),
            running: app.running.clone(),
            options,
            abandoned: app.limits.transfer.saturating_add(LEFTOVER_MARGIN),
            broken: AtomicI64::new(-1),
        }
    }

    /// Looks for due repositories once per interval and runs their jobs, until the process stops. Running jobs are stopped then.
    pub(crate) async fn run(self, life: Lifecycle) {
        if self.options.interval.is_zero() {
            return;
        }
        let mut ticks = tokio::time::interval(self.options.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut queue, mut jobs) = (VecDeque::new(), FuturesUnordered::new());
        let max_jobs = self.options.max_jobs();
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

    /// Returns the repositories that are due and have no running job, longest overdue first.
    async fn due(&self) -> VecDeque<MaintenanceRow> {
        // A broken repository may have been deleted since it was counted.
        if self.broken.load(Ordering::Relaxed) != 0 {
            self.report_broken().await;
        }
        match self.maintenance.due(self.store.name(), self.clock.now_us()).await {
            // The row of a repository with a running job is about to change.
            Ok(rows) => rows.into_iter().filter(|row| !self.running.has(RepositoryId(row.repository_id))).collect(),
            Err(error) => {
                tracing::warn!(%error, "upkeep cannot be planned");
                VecDeque::new()
            }
        }
    }
}

/// Removes leftovers of killed processes from every repository, once, and then old trash every hour, until the process stops.
pub(crate) async fn clean_up_in_background(app: AppState, life: Lifecycle) {
    if let Err(error) = clean_up_all(&app, &life).await {
        tracing::warn!(%error, "leftovers cannot be looked for");
    }
    while !life.is_stopping() {
        tokio::select! {
            () = life.stopping() => return,
            () = tokio::time::sleep(TRASH_INTERVAL) => {}
        }
        let now = std::time::SystemTime::now();
        if let Err(error) = app.pool.run_blocking(move |store| store.empty_trash(now)).await {
            tracing::warn!(%error, "the trash cannot be emptied");
        }
    }
}

/// Removes old temporary files, and the quarantines of pushes that have ended, from every repository of the store.
async fn clean_up_all(app: &AppState, life: &Lifecycle) -> Result<(), RpcError> {
    let maintenance = MaintenanceTable::new(app.db.clone());
    let mut last = RepositoryId(0);
    loop {
        let part = maintenance.list_after(app.store.name(), last).await?;
        let Some(end) = part.last() else { return Ok(()) };
        last = *end;
        for id in part {
            if life.is_stopping() {
                return Ok(());
            }
            let (age, before) = (app.limits.transfer, app.sessions.oldest(id));
            app.pool
                .run_blocking(move |store| {
                    store.remove_abandoned_files(id, age);
                    store.remove_quarantines(id, before)
                })
                .await?;
        }
    }
}

#[cfg(test)]
mod tests;
