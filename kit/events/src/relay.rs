//! The sending side of events: delivers the rows of the outbox to the subscribers.
//!
//! Subscribers can be added and removed while the relay runs. A task per subscriber claims events,
//! delivers them, and records the outcome in the transaction of its next claim. A writer that waits
//! for the delivery may claim and record for the task (see `commit`). A claim is a lease, so that
//! another replica takes over when a process dies. After a failed connection the relay backs off
//! from the whole subscriber; an event that a subscriber rejects delays only the events of its
//! repository.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ferrite_core::Lifecycle;
use ferrite_core::{Clock, micros};
use ferrite_db::{Db, DbError};
use ferrite_proto::events::event_sink_client::EventSinkClient;
use ferrite_rpc::grpc::{Channel, StoreChannel};
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::handover::Handover;
use super::round::Deliverer;
use super::rows::{self, ClaimRequest, Lane, Settlement};
use super::waiters::FlushWaiters;
use super::{lag, purge};

/// Duration of a claim. Longer than all deliveries of a round, and also the delay of events whose
/// relay was killed.
pub(super) const CLAIM_LEASE: Duration = Duration::from_secs(20);
/// Interval between polls of the table without a wake-up.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Backoff after the first round that did not reach the subscriber. Doubles with each further one.
const MIN_PAUSE: Duration = Duration::from_millis(100);
/// Maximum backoff, and so the maximum delay of events once the subscriber is back.
const MAX_PAUSE: Duration = Duration::from_secs(2);
/// Minimum interval between rounds to a subscriber that no writer waits for, so that events are
/// batched. The first event after a pause is delivered at once, and so is a backlog. For a
/// subscriber that writers wait for, events are always delivered at once: the interval then only
/// bounds how long the outcome of a round waits to be recorded with the next claim.
const MIN_ROUND_INTERVAL: Duration = Duration::from_millis(50);
/// The services and one subscriber per git store.
const MAX_SUBSCRIBERS: usize = 1100;

/// Channels to the services that receive events, by the value of the column `subscriber`.
pub type Subscribers = HashMap<&'static str, Channel>;

/// Delivers the outbox of one service, in order per repository and at least once, until each
/// subscriber has accepted each event. Several replicas may run at the same time.
#[derive(Clone, Debug)]
pub struct Relay(pub(super) Arc<Inner>);

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) db: Db,
    pub(super) clock: Clock,
    subscribers: Mutex<SubscriberTable>,
    pub(super) waiters: Arc<FlushWaiters>,
}

#[derive(Debug, Default)]
struct SubscriberTable {
    by_name: HashMap<Arc<str>, Arc<Subscriber>>,
    /// Set once the relay is started.
    life: Option<Lifecycle>,
}

/// A receiver of events. Each has its own task, so that a slow one does not delay the others.
#[derive(Debug)]
struct Subscriber {
    name: Arc<str>,
    channel: StoreChannel,
    handover: Arc<Handover>,
    /// True once a writer has waited for the subscriber.
    is_awaited: AtomicBool,
    removed: CancellationToken,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Round {
    /// Nothing to deliver, or the subscriber did not respond.
    Idle,
    /// All events of a full claim were delivered or rejected; there may be more.
    Full,
    /// Like `Full`, but the claim was not full.
    Part,
}

struct SubscriberTask {
    db: Db,
    clock: Clock,
    deliverer: Deliverer,
    handover: Arc<Handover>,
    /// When the task last polled the table.
    looked: Instant,
    /// Consecutive rounds that did not reach the subscriber.
    unreached: u32,
    /// Backoff after such a round or a database failure.
    pause: Option<Duration>,
}

impl Relay {
    /// Returns a relay of the table `outbox` of `db`.
    #[must_use]
    pub fn new(db: Db, clock: Clock, subscribers: Subscribers) -> Self {
        let relay = Self(Arc::new(Inner { db, clock, subscribers: Mutex::default(), waiters: Arc::default() }));
        for (name, channel) in subscribers {
            relay.add(name, channel);
        }
        relay
    }

    /// Adds a subscriber, and starts to deliver to it if the relay is running. A known subscriber
    /// is not replaced. A channel to one git store names the store in its calls.
    pub fn add(&self, name: &str, channel: impl Into<StoreChannel>) {
        let mut table = self.0.subscribers.lock();
        if table.by_name.contains_key(name) {
            return;
        }
        if table.by_name.len() >= MAX_SUBSCRIBERS {
            return tracing::error!(subscriber = name, "too many subscribers: not delivering to this one");
        }
        let (handover, is_awaited, removed) = (Arc::default(), AtomicBool::new(false), CancellationToken::new());
        let subscriber = Subscriber { name: name.into(), channel: channel.into(), handover, is_awaited, removed };
        let subscriber = Arc::new(subscriber);
        table.by_name.insert(Arc::clone(&subscriber.name), Arc::clone(&subscriber));
        let life = table.life.clone();
        drop(table);
        if let Some(life) = life {
            self.spawn(subscriber, &life);
        }
    }

    /// Stops the deliveries to a subscriber. Its events stay in the outbox.
    pub fn remove(&self, name: &str) {
        if let Some(subscriber) = self.0.subscribers.lock().by_name.remove(name) {
            subscriber.removed.cancel();
        }
    }

    /// Starts the tasks that deliver rows, and delete them `retention` after their delivery, until
    /// `life` stops.
    pub fn start(&self, retention: Duration, life: &Lifecycle) {
        let mut table = self.0.subscribers.lock();
        table.life = Some(life.clone());
        let subscribers: Vec<_> = table.by_name.values().cloned().collect();
        drop(table);
        for subscriber in subscribers {
            self.spawn(subscriber, life);
        }
        let (db, clock) = (self.0.db.clone(), self.0.clock.clone());
        life.spawn("outbox purge", purge::run(db.clone(), clock.clone(), retention, life.clone()));
        let relay = self.clone();
        let names = move || relay.0.subscribers.lock().by_name.keys().map(ToString::to_string).collect();
        life.spawn("outbox metrics", lag::run(db, clock, names, life.clone()));
    }

    fn spawn(&self, subscriber: Arc<Subscriber>, life: &Lifecycle) {
        let (relay, life2) = (self.clone(), life.clone());
        life.spawn("relay", async move { relay.run(&subscriber, life2).await });
    }

    /// Records that writers wait for these subscribers.
    pub(super) fn set_awaited(&self, subscribers: &[Arc<str>]) {
        let table = self.0.subscribers.lock();
        for subscriber in subscribers.iter().filter_map(|name| table.by_name.get(name)) {
            subscriber.is_awaited.store(true, Ordering::Relaxed);
        }
    }

    /// Makes all tasks poll the table now.
    pub fn wake(&self) {
        for subscriber in self.0.subscribers.lock().by_name.values() {
            subscriber.handover.look();
        }
    }

    /// Makes the task of one subscriber poll the table now.
    pub fn wake_one(&self, subscriber: &str) {
        if let Some(handover) = self.handover(subscriber) {
            handover.look();
        }
    }

    /// Returns the state that writers share with the task of a subscriber.
    pub(super) fn handover(&self, subscriber: &str) -> Option<Arc<Handover>> {
        self.0.subscribers.lock().by_name.get(subscriber).map(|subscriber| Arc::clone(&subscriber.handover))
    }

    /// Delivers to one subscriber until `life` stops or the subscriber is removed.
    async fn run(&self, subscriber: &Subscriber, life: Lifecycle) {
        let Subscriber { name, channel, handover, is_awaited, removed } = subscriber;
        // On PostgreSQL a writer of another replica may wait for the delivery mark. On SQLite each
        // service has a single process.
        let outcomes_may_wait = self.0.db.pick(false, true);
        let mut task = self.task(subscriber, channel);
        let stopping = async || {
            tokio::select! {
                () = life.stopping() => {}
                () = removed.cancelled() => {}
            }
        };
        while !life.is_stopping() && !removed.is_cancelled() {
            let begin = Instant::now();
            match task.round(name).await {
                Ok(Round::Full) => continue,
                Ok(Round::Part) => {
                    let is_awaited = is_awaited.load(Ordering::Relaxed);
                    if !is_awaited || outcomes_may_wait {
                        tokio::select! {
                            () = stopping() => {}
                            () = handover.wait(), if is_awaited => {}
                            () = tokio::time::sleep_until(begin + MIN_ROUND_INTERVAL) => {}
                        }
                    }
                    continue;
                }
                Ok(Round::Idle) => {}
                Err(error) => {
                    tracing::warn!(%error, subscriber = %name, "outbox round failed");
                    // Lanes in memory would otherwise start the next round at once.
                    task.pause.get_or_insert(MIN_PAUSE);
                }
            }
            let pause = task.pause.take();
            tokio::select! {
                () = stopping() => {}
                () = handover.wait(), if pause.is_none() => {}
                () = tokio::time::sleep(pause.unwrap_or(POLL_INTERVAL)) => {}
            }
        }
        if let Err(error) = task.end(name).await {
            tracing::warn!(%error, subscriber = %name, "cannot record deliveries; they will be repeated");
        }
    }

    fn task(&self, subscriber: &Subscriber, channel: &StoreChannel) -> SubscriberTask {
        let (db, clock) = (self.0.db.clone(), self.0.clock.clone());
        let deliverer = Deliverer {
            subscriber: Arc::clone(&subscriber.name),
            clock: clock.clone(),
            client: EventSinkClient::new(channel.clone()),
            waiters: Arc::clone(&self.0.waiters),
        };
        let (handover, looked) = (Arc::clone(&subscriber.handover), Instant::now());
        SubscriberTask { db, clock, deliverer, handover, looked, unreached: 0, pause: None }
    }
}

impl SubscriberTask {
    /// Delivers lanes that writers claimed, or polls the table.
    async fn round(&mut self, name: &str) -> Result<Round, DbError> {
        // Even if writers keep it busy, the task must poll the table, where rejected lanes become
        // due.
        let lanes = if self.looked.elapsed() < POLL_INTERVAL { self.handover.take_lanes() } else { Vec::new() };
        if lanes.is_empty() { self.claim(name).await } else { self.deliver(name, lanes).await }
    }

    /// Records the outcome of the last rounds, claims events and delivers them.
    async fn claim(&mut self, name: &str) -> Result<Round, DbError> {
        self.looked = Instant::now();
        let now = self.clock.now_us();
        let lanes = self.settle(name, &ClaimRequest::new(now, now + micros(CLAIM_LEASE))).await?;
        if lanes.is_empty() {
            return Ok(Round::Idle);
        }
        let is_full = lanes.iter().map(|lane| lane.rows.len()).sum::<usize>() >= rows::MAX_CLAIM_EVENTS as usize;
        let round = self.deliver(name, lanes).await?;
        Ok(if is_full && round == Round::Part { Round::Full } else { round })
    }

    async fn deliver(&mut self, name: &str, lanes: Vec<Lane>) -> Result<Round, DbError> {
        let mut settlement = Settlement::default();
        let is_reachable = self.deliverer.deliver_all(lanes, &mut settlement).await;
        self.handover.record(settlement);
        if is_reachable {
            self.unreached = 0;
            return Ok(Round::Part);
        }
        self.pause = Some((MIN_PAUSE * 2_u32.pow(self.unreached.min(10))).min(MAX_PAUSE));
        self.unreached = self.unreached.saturating_add(1);
        self.settle(name, &ClaimRequest::nothing(self.clock.now_us())).await?;
        Ok(Round::Idle)
    }

    /// Records the outcomes of rounds, if any, and claims the next lanes.
    async fn settle(&mut self, name: &str, next: &ClaimRequest) -> Result<Vec<Lane>, DbError> {
        let settlement = self.handover.take_settlement();
        if settlement.is_empty() {
            return rows::claim(&self.db, name, next).await;
        }
        let lanes = rows::settle_and_claim(&self.db, name, Some(&settlement), next).await;
        if lanes.is_err() {
            self.handover.record(settlement);
        }
        lanes
    }

    /// Gives up undelivered lanes and records the outcomes of rounds.
    async fn end(&mut self, name: &str) -> Result<(), DbError> {
        let now_us = self.clock.now_us();
        let nothing = ClaimRequest::nothing(now_us);
        self.settle(name, &nothing).await?;
        let mut given_up = Settlement::default();
        self.handover.take_lanes().iter().for_each(|lane| given_up.postponed(lane, now_us, lane.attempts));
        self.handover.record(given_up);
        self.settle(name, &nothing).await.map(drop)
    }
}
