//! Upkeep of a store's repositories, in the background: objects and refs are packed, indexes written, leftovers removed.
//!
//! Not here: how git does it ([`Chore`](crate::command::Chore)), and what is measured ([`measure`](crate::measure)).

mod job;
mod options;
mod plan;
mod running;

use std::{collections::VecDeque, sync::Arc, time::Duration};

use ferrite_kit::{Clock, Lifecycle};
use ferrite_proto::id::RepositoryId;
use futures_util::{StreamExt as _, stream::FuturesUnordered};
use tokio::time::MissedTickBehavior;

pub use self::options::UpkeepArgs;
pub(crate) use self::running::Running;
use crate::{
    app::App,
    command::Git,
    failure::Failure,
    layout::Store,
    pool::Pool,
    store::{Maintenance, Repositories, Upkept},
    work::Writer,
};

/// How old leftovers of a process before this one must be.
const ABANDONED: Duration = Duration::from_secs(3600);
/// How often old trash is looked for.
const TRASH_EVERY: Duration = Duration::from_secs(3600);

/// The parts that upkeep works with.
pub(crate) struct Upkeep {
    clock: Clock,
    store: Arc<Store>,
    pool: Pool,
    git: Arc<Git>,
    writer: Writer,
    repositories: Repositories,
    maintenance: Maintenance,
    running: Running,
    options: UpkeepArgs,
}

impl Upkeep {
    /// Upkeep of all repositories of the process.
    pub(crate) fn new(app: &App, options: UpkeepArgs) -> Self {
        Self {
            clock: app.clock.clone(),
            store: Arc::clone(&app.store),
            pool: app.pool.clone(),
            git: Arc::clone(&app.git),
            writer: app.writer.clone(),
            repositories: app.repositories.clone(),
            maintenance: Maintenance::new(app.db.clone()),
            running: app.running.clone(),
            options,
        }
    }

    /// Looks for repositories that need something and does it, until the process stops. Jobs that run then are ended.
    pub(crate) async fn run(self, life: Lifecycle) {
        if self.options.interval.is_zero() {
            return;
        }
        let mut ticks = tokio::time::interval(self.options.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut queue, mut jobs) = (VecDeque::new(), FuturesUnordered::new());
        let slots = self.options.slots();
        loop {
            while jobs.len() < slots
                && let Some(row) = queue.pop_front()
            {
                jobs.push(self.look_after(row));
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

    async fn due(&self) -> VecDeque<Upkept> {
        match self.maintenance.due(self.store.name(), self.clock.now_us()).await {
            // What is known about those that are being worked on is about to change.
            Ok(rows) => rows.into_iter().filter(|row| !self.running.has(RepositoryId(row.repository_id))).collect(),
            Err(error) => {
                tracing::warn!(%error, "upkeep cannot be planned");
                VecDeque::new()
            }
        }
    }
}

/// Removes what killed processes left in every repository, once, and then trash that is old, until the process stops.
pub(crate) async fn tidy_in_background(app: App, life: Lifecycle) {
    if let Err(error) = tidy_all(&app, &life).await {
        tracing::warn!(%error, "leftovers cannot be looked for");
    }
    while !life.is_stopping() {
        tokio::select! {
            () = life.stopping() => return,
            () = tokio::time::sleep(TRASH_EVERY) => {}
        }
        let now = std::time::SystemTime::now();
        if let Err(error) = app.pool.run_blocking(move |store| store.empty_trash(now)).await {
            tracing::warn!(%error, "the trash cannot be emptied");
        }
    }
}

async fn tidy_all(app: &App, life: &Lifecycle) -> Result<(), Failure> {
    let maintenance = Maintenance::new(app.db.clone());
    let mut last = RepositoryId(0);
    loop {
        let part = maintenance.known(app.store.name(), last).await?;
        let Some(end) = part.last() else { return Ok(()) };
        last = *end;
        for id in part {
            if life.is_stopping() {
                return Ok(());
            }
            app.pool
                .run_blocking(move |store| {
                    store.tidy(id, ABANDONED);
                    Ok(())
                })
                .await?;
        }
    }
}

#[cfg(test)]
mod tests;
