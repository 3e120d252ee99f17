//! Upkeep of a store's repositories, in the background: objects and refs are packed, indexes written, leftovers removed.
//!
//! Not here: how git does it ([`MaintenanceTask`](crate::git::command::maintenance_task::MaintenanceTask)), and the sizes of
//! repositories ([`usage`](crate::disk::usage)).

mod check;
mod job;
pub(crate) mod options;
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

use ferrite_kit::{Clock, Lifecycle, db::Db};
use ferrite_proto::id::RepositoryId;
use futures_util::{StreamExt as _, stream::FuturesUnordered};
use tokio::time::MissedTickBehavior;

use self::{options::MaintenanceOptions, running::RunningJobs};
use crate::{
    db::{MaintenanceRow, MaintenanceTable, RepositoryTable},
    disk::repositories::RepositoryStore,
    git::command::Git,
    ref_updates::RefUpdater,
    repo::pool::Pool,
    transfer::push::HookSessions,
    types::rpc_error::RpcError,
};

/// How much longer than a transfer may take leftovers of git stay.
const LEFTOVER_MARGIN: Duration = Duration::from_secs(3600);
/// How often old trash is looked for.
const TRASH_INTERVAL: Duration = Duration::from_secs(3600);

/// The parts that maintenance works with.
pub(crate) struct MaintenanceParts {
    pub(crate) clock: Clock,
    pub(crate) db: Db,
    pub(crate) store: Arc<RepositoryStore>,
    pub(crate) pool: Pool,
    pub(crate) git: Arc<Git>,
    pub(crate) updater: RefUpdater,
    /// Pushes under way, whose files are not to be removed.
    pub(crate) sessions: HookSessions,
}

/// Maintains all repositories of the process.
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
    options: MaintenanceOptions,
    /// Longest time that a transfer may take.
    transfer_timeout: Duration,
    /// Age of files that no process can still use: only older ones are removed.
    leftover_age: Duration,
    /// Repositories that were not whole when they were last checked; below zero while that is unknown.
    broken: AtomicI64,
}

impl MaintenanceService {
    /// A service that leaves files alone which a transfer, of at most `transfer_timeout`, may still use.
    pub(crate) fn new(parts: MaintenanceParts, options: MaintenanceOptions, transfer_timeout: Duration) -> Self {
        let MaintenanceParts { clock, db, store, pool, git, updater, sessions } = parts;
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
            options,
            transfer_timeout,
            leftover_age: transfer_timeout.saturating_add(LEFTOVER_MARGIN),
            broken,
        }
    }

    /// Ends the job of a repository that goes away, and waits for its end.
    pub(crate) async fn stop(&self, id: RepositoryId) {
        self.running.stop(id).await;
    }

    /// Looks for repositories that need something and does it, until the process stops. Jobs that run then are ended.
    pub(crate) async fn run(&self, life: Lifecycle) {
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

    async fn due(&self) -> VecDeque<MaintenanceRow> {
        // One of them may have been deleted.
        if self.broken.load(Ordering::Relaxed) != 0 {
            self.report_broken().await;
        }
        match self.maintenance.due(self.store.name(), self.clock.now_us()).await {
            // What is known about those that are being worked on is about to change.
            Ok(rows) => rows.into_iter().filter(|row| !self.running.has(RepositoryId(row.repository_id))).collect(),
            Err(error) => {
                tracing::warn!(%error, "upkeep cannot be planned");
                VecDeque::new()
            }
        }
    }

    /// Removes what killed processes left in every repository, once, and then trash that is old, until the process stops.
    pub(crate) async fn clean_up_in_background(&self, life: Lifecycle) {
        if let Err(error) = self.clean_up_all(&life).await {
            tracing::warn!(%error, "leftovers cannot be looked for");
        }
        while !life.is_stopping() {
            tokio::select! {
                () = life.stopping() => return,
                () = tokio::time::sleep(TRASH_INTERVAL) => {}
            }
            let now = std::time::SystemTime::now();
            if let Err(error) = self.pool.run_blocking(move |store| store.empty_trash(now)).await {
                tracing::warn!(%error, "the trash cannot be emptied");
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
