//! The sending side of events: delivers the rows of the outbox to the subscribers.
//!
//! Subscribers may come and go while the relay runs. For each one a task claims events, delivers them, and records the outcome in the
//! transaction of its next claim. A claim ends after a lease, so that another replica takes over the events of a process that died. A
//! subscriber that is unreachable is left alone for a while as a whole; an event that a subscriber refuses delays the events of its own
//! repository.
//!
//! Not here: the SQL of the outbox, which is in `rows`, and the deliveries, which are in `round`.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ferrite_proto::events::Event;
use ferrite_proto::events::event_sink_client::EventSinkClient;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::round::Deliverer;
use super::rows::{self, ClaimRequest, Settlement};
use super::waiters::FlushWaiters;
use super::{lag, purge};
use crate::clock::{Clock, micros};
use crate::db::{Db, DbError};
use crate::grpc::{Channel, StoreChannel};
use crate::lifecycle::Lifecycle;

/// Duration of a claim. Longer than all deliveries of one round; also the delay of events whose relay was killed.
const CLAIM_LEASE: Duration = Duration::from_secs(20);
/// Time between two looks for events without a wake-up.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Pause after the first round that did not reach the subscriber. Doubled by each further one.
const MIN_PAUSE: Duration = Duration::from_millis(100);
/// Longest pause; also the longest delay of events after the subscriber is back.
const MAX_PAUSE: Duration = Duration::from_secs(2);
/// Time between the beginnings of two rounds to a subscriber for which no writer waits, so that events of one moment travel together and
/// writes in a row pay for fewer deliveries. The first event after a rest is delivered at once, and so is a backlog. To a subscriber for
/// which writers wait, the next event is delivered at once as well: the time is only how long the outcome of a round may wait to be recorded
/// together with the next claim.
const MIN_ROUND_INTERVAL: Duration = Duration::from_millis(50);
/// Longest time that a writer waits for the delivery of its own event.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(50);

/// Time after which a writer that waits looks for the first time if another replica has delivered its event. Doubled by each further look.
const MIN_LOOK_PAUSE: Duration = Duration::from_millis(15);
const MAX_LOOK_PAUSE: Duration = Duration::from_millis(120);

/// Most subscribers of a relay: the services, and one for each git store.
const MAX_SUBSCRIBERS: usize = 1100;

/// Channels to the services that receive events, by the name in the column `subscriber`.
pub type Subscribers = HashMap<&'static str, Channel>;

/// Delivers the rows of the outbox of one service, in order per repository and at least once, until the subscriber has accepted each.
/// Several replicas may run at once.
#[derive(Clone, Debug)]
pub struct Relay(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    db: Db,
    clock: Clock,
    subscribers: Mutex<SubscriberTable>,
    waiters: Arc<FlushWaiters>,
}

#[derive(Debug, Default)]
struct SubscriberTable {
    by_name: HashMap<Arc<str>, Arc<Subscriber>>,
    /// The process, once the relay has been started.
    life: Option<Lifecycle>,
}

/// A receiver of events. Each has a task of its own, so that a slow one does not delay the others.
#[derive(Debug)]
struct Subscriber {
    name: Arc<str>,
    channel: StoreChannel,
    wake: Notify,
    /// True once a writer has waited for the subscriber.
    is_awaited: AtomicBool,
    /// Cancelled when the subscriber is removed.
    removed: CancellationToken,
}

/// Waits for the delivery of one event. Must be made before the commit, so that it cannot miss the delivery.
#[derive(Debug)]
pub struct FlushHandle {
    relay: Relay,
    event_id: String,
    subscribers: Vec<Arc<str>>,
    delivered: Vec<oneshot::Receiver<()>>,
}

/// The result of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Round {
    /// There was nothing to deliver, or the subscriber did not respond.
    Idle,
    /// All events of a claim were delivered or refused; there may be more.
    Full,
    /// The same, of fewer events than a claim may have.
    Part,
}

/// The task that delivers to one subscriber, between two transactions.
struct SubscriberTask {
    db: Db,
    clock: Clock,
    deliverer: Deliverer,
    /// The outcome of the last round, until it is recorded.
    settlement: Option<Settlement>,
    /// Rounds in a row that did not reach the subscriber.
    unreached: u32,
    /// Time for which the subscriber is left alone after such a round.
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

    /// Adds a subscriber, and delivers to it at once if the relay has been started. A subscriber that is known stays as it is. A channel
    /// to one git store names the store in its calls.
    pub fn add(&self, name: &str, channel: impl Into<StoreChannel>) {
        let mut table = self.subscribers();
        if table.by_name.contains_key(name) {
            return;
        }
        if table.by_name.len() >= MAX_SUBSCRIBERS {
            return tracing::error!(subscriber = name, "too many subscribers: this one's events wait");
        }
        let (wake, is_awaited, removed) = (Notify::new(), AtomicBool::new(false), CancellationToken::new());
        let subscriber = Arc::new(Subscriber { name: name.into(), channel: channel.into(), wake, is_awaited, removed });
        table.by_name.insert(Arc::clone(&subscriber.name), Arc::clone(&subscriber));
        let life = table.life.clone();
        drop(table);
        if let Some(life) = life {
            self.spawn(subscriber, &life);
        }
    }

    /// Ends the deliveries to a subscriber. Its events stay in the outbox.
    pub fn remove(&self, name: &str) {
        if let Some(subscriber) = self.subscribers().by_name.remove(name) {
            subscriber.removed.cancel();
        }
    }

    /// Starts the tasks that deliver rows until `life` stops, and delete them when `retention` has passed since their delivery.
    pub fn start(&self, retention: Duration, life: &Lifecycle) {
        let mut table = self.subscribers();
        table.life = Some(life.clone());
        let subscribers: Vec<_> = table.by_name.values().cloned().collect();
        drop(table);
        for subscriber in subscribers {
            self.spawn(subscriber, life);
        }
        let (db, clock) = (self.0.db.clone(), self.0.clock.clone());
        life.spawn("outbox purge", purge::run(db.clone(), clock.clone(), retention, life.clone()));
        let relay = self.clone();
        let names = move || relay.subscribers().by_name.keys().map(ToString::to_string).collect();
        life.spawn("outbox metrics", lag::run(db, clock, names, life.clone()));
    }

    fn spawn(&self, subscriber: Arc<Subscriber>, life: &Lifecycle) {
        let (relay, life2) = (self.clone(), life.clone());
        life.spawn("relay", async move { relay.run(&subscriber, life2).await });
    }

    /// Returns a handle that waits for the delivery of `event` to these of its subscribers. Call this before the commit and
    /// [`FlushHandle::wait`] after it.
    #[must_use]
    pub fn flush(&self, event: &Event, subscribers: &[&str]) -> FlushHandle {
        let names: Vec<Arc<str>> = subscribers.iter().map(|name| Arc::from(*name)).collect();
        let table = self.subscribers();
        for subscriber in names.iter().filter_map(|name| table.by_name.get(name)) {
            subscriber.is_awaited.store(true, Ordering::Relaxed);
        }
        drop(table);
        let delivered = self.0.waiters.add(&event.event_id, &names);
        FlushHandle { relay: self.clone(), event_id: event.event_id.clone(), subscribers: names, delivered }
    }

    /// Makes all tasks look for rows now instead of at the next poll.
    pub fn wake(&self) {
        for subscriber in self.subscribers().by_name.values() {
            subscriber.wake.notify_one();
        }
    }

    fn subscribers(&self) -> MutexGuard<'_, SubscriberTable> {
        // Nothing panics while the lock is held.
        self.0.subscribers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Delivers to one subscriber until `life` stops or the subscriber is removed.
    async fn run(&self, subscriber: &Subscriber, life: Lifecycle) {
        let Subscriber { name, channel, wake, is_awaited, removed } = subscriber;
        let (db, clock) = (self.0.db.clone(), self.0.clock.clone());
        // On PostgreSQL a writer of another replica may wait for the mark of a delivery. SQLite has one process for each service.
        let outcomes_may_wait = db.pick(false, true);
        let client = EventSinkClient::new(channel.clone());
        let deliverer = Deliverer {
            subscriber: Arc::clone(name),
            clock: clock.clone(),
            client,
            waiters: Arc::clone(&self.0.waiters),
        };
        let mut task = SubscriberTask { db, clock, deliverer, settlement: None, unreached: 0, pause: None };
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
                            () = wake.notified(), if is_awaited => {}
                            () = tokio::time::sleep_until(begin + MIN_ROUND_INTERVAL) => {}
                        }
                    }
                    continue;
                }
                Ok(Round::Idle) => {}
                Err(error) => tracing::warn!(%error, subscriber = %name, "outbox round failed"),
            }
            let pause = task.pause.take();
            tokio::select! {
                () = stopping() => {}
                () = wake.notified(), if pause.is_none() => {}
                () = tokio::time::sleep(pause.unwrap_or(POLL_INTERVAL)) => {}
            }
        }
        if let Err(error) = task.settle(name).await {
            tracing::warn!(%error, subscriber = %name, "deliveries could not be recorded and will be repeated");
        }
    }
}

impl SubscriberTask {
    /// Records the outcome of the last round, claims events and delivers them.
    async fn round(&mut self, name: &str) -> Result<Round, DbError> {
        let now = self.clock.now_us();
        let request = ClaimRequest::new(now, now + micros(CLAIM_LEASE));
        let lanes = match &self.settlement {
            Some(settlement) => rows::settle_and_claim(&self.db, name, Some(settlement), &request).await?,
            None => rows::claim(&self.db, name, &request).await?,
        };
        self.settlement = None;
        if lanes.is_empty() {
            return Ok(Round::Idle);
        }
        let is_full = lanes.iter().map(|lane| lane.rows.len()).sum::<usize>() >= rows::MAX_CLAIM_EVENTS as usize;
        let mut settlement = request.settlement();
        let is_reachable = self.deliverer.deliver_all(lanes, &mut settlement).await;
        self.settlement = Some(settlement);
        if is_reachable {
            self.unreached = 0;
            return Ok(if is_full { Round::Full } else { Round::Part });
        }
        self.pause = Some((MIN_PAUSE * 2_u32.pow(self.unreached.min(10))).min(MAX_PAUSE));
        self.unreached = self.unreached.saturating_add(1);
        self.settle(name).await?;
        Ok(Round::Idle)
    }

    /// Records the outcome of the last round without a new claim.
    async fn settle(&mut self, name: &str) -> Result<(), DbError> {
        if let Some(settlement) = &self.settlement {
            let nothing = ClaimRequest::nothing(self.clock.now_us());
            rows::settle_and_claim(&self.db, name, Some(settlement), &nothing).await?;
        }
        self.settlement = None;
        Ok(())
    }
}

impl FlushHandle {
    /// Wakes the relay and waits until each of the subscribers has accepted the event, at most 50 ms. After that the relay goes on delivering
    /// the event without the caller.
    pub async fn wait(self) {
        self.wait_at_most(FLUSH_TIMEOUT).await;
    }

    /// Waits as [`FlushHandle::wait`], but at most `limit`: for an effect that the next request of the same client must see.
    pub async fn wait_at_most(mut self, limit: Duration) {
        self.relay.wake();
        let delivered = std::mem::take(&mut self.delivered);
        let all = async {
            for delivered in delivered {
                let _ = delivered.await;
            }
        };
        let either = async {
            tokio::select! {
                () = all => {}
                () = self.delivered_elsewhere() => {}
            }
        };
        let _ = tokio::time::timeout(limit, either).await;
    }

    /// Waits for the mark of the delivery: another replica may have claimed the event, of which this process hears nothing. SQLite has one
    /// process for each service.
    async fn delivered_elsewhere(&self) {
        let db = &self.relay.0.db;
        if db.pick(false, true) {
            return std::future::pending().await;
        }
        let mut pause = MIN_LOOK_PAUSE;
        loop {
            tokio::time::sleep(pause).await;
            if let Ok(false) = rows::is_waiting(db, &self.event_id, &self.subscribers).await {
                return;
            }
            pause = (pause * 2).min(MAX_LOOK_PAUSE);
        }
    }
}

impl Drop for FlushHandle {
    fn drop(&mut self) {
        self.relay.0.waiters.remove(&self.event_id);
    }
}
