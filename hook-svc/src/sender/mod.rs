//! Sends deliveries. Claims due queues, sends the head of each, records the attempt and continues.
//!
//! A process sends at most [`MAX_SENDS`] deliveries at once, [`MAX_SENDS_PER_HOOK`] per hook, and
//! only one to a hook whose last request timed out. So slow receivers do not delay others. Several
//! processes may run; each queue is claimed by one.

mod attempt;
mod in_flight;
mod message;
mod purge;
mod schedule;
mod sent_secrets;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use ferrite_core::config::within;
use ferrite_core::{Clock, Lifecycle, micros};
use ferrite_db::{Db, DbError};
use ferrite_outbound::Client;
use tokio::sync::{Notify, Semaphore};

use self::in_flight::InFlight;
use self::schedule::RetrySchedule;
use crate::store::HookTable;
use crate::store::claims::{self, Claim, Head, MAX_DUE_QUEUES};
use crate::store::deliveries;
use crate::store::kept_bytes::GrownRepositories;
use crate::store::outcomes::{self, Settled};

/// Concurrent deliveries per process.
const MAX_SENDS: usize = 256;
/// Concurrent deliveries per hook and process.
const MAX_SENDS_PER_HOOK: usize = 8;
/// Concurrent deliveries with a payload over 64 KiB per process. Bounds their memory.
const MAX_LARGE_SENDS: usize = 32;
/// Lease of a claim: longer than one delivery and its record. If the process is killed, its
/// deliveries are delayed by this time.
const CLAIM_LEASE: Duration = Duration::from_secs(30);
/// How long one claim continues with further deliveries of its queue.
const MAX_CLAIM_RUN: Duration = Duration::from_secs(1);
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Delay of a queue after an [`attempt::Fault`].
const FAULT_DELAY: Duration = Duration::from_secs(2);
/// Pause before a result is recorded again after a database failure.
const RECORD_PAUSE: Duration = Duration::from_millis(500);
const MEASURE_INTERVAL: Duration = Duration::from_secs(15);

/// Settings of deliveries.
#[derive(Args, Clone, Debug)]
pub struct DeliveryArgs {
    /// Delays before the retries of a failed delivery, in seconds, comma-separated.
    #[arg(long, env = "FERRITE_HOOK_RETRY_SECONDS", default_value = "5,30,120,600,3600,10800,21600,43200")]
    pub(crate) hook_retry_seconds: RetrySchedule,

    /// Retention of finished deliveries, in days.
    #[arg(long, env = "FERRITE_HOOK_DELIVERY_DAYS", default_value_t = 7, value_parser = within::<u32>(1..=3650))]
    pub(crate) hook_delivery_days: u32,

    /// Finished deliveries to keep per webhook.
    #[arg(long, env = "FERRITE_HOOK_DELIVERY_COUNT", default_value_t = 1000, value_parser = within::<u32>(1..=100_000))]
    pub(crate) hook_delivery_count: u32,
}

/// Sends deliveries until the process stops. Clones share one sender.
#[derive(Clone)]
pub(crate) struct Sender(Arc<Inner>);

struct Inner {
    db: Db,
    hooks: HookTable,
    client: Client,
    clock: Clock,
    settings: DeliveryArgs,
    grown: GrownRepositories,
    in_flight: InFlight,
    large_sends: Semaphore,
    wake: Notify,
}

impl Sender {
    /// Creates a sender for the deliveries of `hooks`. It reports growing delivery logs to `grown`.
    pub(crate) fn new(
        hooks: HookTable,
        client: Client,
        clock: Clock,
        settings: DeliveryArgs,
        grown: GrownRepositories,
    ) -> Self {
        Self(Arc::new(Inner {
            db: hooks.db().clone(),
            hooks,
            client,
            clock,
            settings,
            grown,
            in_flight: InFlight::default(),
            large_sends: Semaphore::new(MAX_LARGE_SENDS),
            wake: Notify::new(),
        }))
    }

    /// Starts the tasks that send deliveries, delete old ones and measure the queues.
    pub(crate) fn start(&self, life: &Lifecycle) {
        let (sender, life2) = (self.clone(), life.clone());
        life.spawn("sender", async move { sender.run(&life2).await });
        let (db, clock, settings) = (self.0.db.clone(), self.0.clock.clone(), self.0.settings.clone());
        life.spawn("delivery purge", purge::run(db.clone(), clock.clone(), settings, life.clone()));
        life.spawn("delivery metrics", measure_queues(db, clock, life.clone()));
    }

    /// Looks for due queues now. Call it after committing a transaction that adds or resumes
    /// deliveries.
    pub(crate) fn wake(&self) {
        self.0.wake.notify_one();
    }

    async fn run(&self, life: &Lifecycle) {
        while !life.is_stopping() {
            match self.round(life).await {
                Ok(true) => continue,
                Ok(false) => {}
                Err(error) => tracing::warn!(%error, "cannot claim due deliveries"),
            }
            tokio::select! {
                () = life.stopping() => {}
                () = self.0.wake.notified() => {}
                () = tokio::time::sleep(POLL_INTERVAL) => {}
            }
        }
    }

    /// Claims due queues, as many as there are free slots, and starts a task for each. Returns
    /// whether more may be due.
    async fn round(&self, life: &Lifecycle) -> Result<bool, DbError> {
        let inner = &self.0;
        let Some(saturated) = inner.in_flight.saturated() else { return Ok(false) };
        let due = claims::due(&inner.db, inner.clock.now_us(), &saturated).await?;
        let is_full_page = due.len() == MAX_DUE_QUEUES;
        let slots = inner.in_flight.reserve(due);
        let queues: Vec<_> = slots.iter().map(|slot| slot.queue).collect();
        let now_us = inner.clock.now_us();
        let claimed = claims::claim(&inner.db, &queues, now_us, now_us + micros(CLAIM_LEASE)).await?;
        let is_some = !claimed.is_empty();
        let mut slots: HashMap<_, _> = slots.into_iter().map(|slot| (slot.queue, slot)).collect();
        for (claim, head) in claimed {
            let Some(slot) = slots.remove(&claim.queue) else { continue };
            let (sender, life2) = (self.clone(), life.clone());
            life.spawn("delivery", async move {
                sender.send_queue(claim, head, &life2).await;
                drop(slot);
                sender.wake();
            });
        }
        Ok(is_some && is_full_page)
    }

    /// Sends the head of a claimed queue, then further deliveries for at most [`MAX_CLAIM_RUN`].
    async fn send_queue(&self, claim: Claim, head: Head, life: &Lifecycle) {
        let started = Instant::now();
        let mut head = head;
        loop {
            let goes_on = || started.elapsed() < MAX_CLAIM_RUN && !life.is_stopping();
            match self.send_head(&claim, &head, goes_on).await {
                Ok(Settled::Next(next)) => head = next,
                Ok(Settled::Released | Settled::Lost) => return,
                Err(error) => {
                    tracing::warn!(%error, hook.id = claim.queue.hook.0, "cannot attempt delivery {}", head.uuid);
                    let next_us = self.0.clock.now_us() + micros(FAULT_DELAY);
                    // If this fails, the queue is due again when the lease ends.
                    let _ = claims::release(&self.0.db, &claim, next_us).await;
                    return;
                }
            }
        }
    }

    /// Reads the hook again, sends one delivery to it, and records the result.
    async fn send_head(
        &self,
        claim: &Claim,
        head: &Head,
        goes_on: impl Fn() -> bool,
    ) -> Result<Settled, attempt::Fault> {
        let hook = self.0.hooks.hook(claim.queue.hook).await?;
        let Some(hook) = hook.filter(|hook| hook.is_running() || claim.queue.is_test()) else {
            claims::give_back(&self.0.db, claim, self.0.clock.now_us()).await?;
            return Ok(Settled::Released);
        };
        let mut result = self.attempt(claim, head, &hook).await?;
        let deadline = Instant::now() + CLAIM_LEASE;
        loop {
            result.now_us = self.0.clock.now_us();
            result.lease_until_us = goes_on().then(|| result.now_us + micros(CLAIM_LEASE));
            match outcomes::settle(&self.0.db, claim, head, &result).await {
                Err(error) if Instant::now() < deadline => {
                    tracing::warn!(%error, "cannot record the result of delivery {}", head.uuid);
                    tokio::time::sleep(RECORD_PAUSE).await;
                }
                settled => {
                    self.0.grown.add(claim.queue.repository, result.attempt.bytes());
                    return Ok(settled?);
                }
            }
        }
    }
}

async fn measure_queues(db: Db, clock: Clock, life: Lifecycle) {
    while !life.is_stopping() {
        let now_us = clock.now_us();
        match deliveries::queue_totals(&db, now_us).await {
            Ok(totals) => {
                let seconds =
                    |since_us: Option<i64>| since_us.map_or(0, |since_us| (now_us - since_us).max(0)) as f64 / 1e6;
                metrics::gauge!("ferrite_hook_queue_length").set(totals.length as f64);
                metrics::gauge!("ferrite_hook_queue_oldest_seconds").set(seconds(totals.oldest_us));
                metrics::gauge!("ferrite_hook_deliveries_due").set(totals.due_queues as f64);
                metrics::gauge!("ferrite_hook_due_seconds").set(seconds(totals.due_since_us));
            }
            Err(error) => tracing::warn!(%error, "cannot measure the delivery queues"),
        }
        life.pause(MEASURE_INTERVAL).await;
    }
}
