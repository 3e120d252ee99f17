//! The sending side of events: delivers the rows of the outbox to the subscribers.
//!
//! For each subscriber a task claims rows, delivers them in one call and marks them. If the call is refused, the rows are delivered again
//! by repository, so that an event that a subscriber refuses delays its own repository only. A claim ends after a lease, so that another
//! replica takes over the rows of a process that died.
//!
//! Not here: the SQL of the outbox, which is in `rows`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ferrite_proto::events::event_sink_client::EventSinkClient;
use ferrite_proto::events::{DeliverRequest, Event};
use prost::Message;
use tokio::sync::{Notify, oneshot};
use tonic::Code;

use super::rows::{self, OutboxRow};
use crate::clock::Clock;
use crate::db::{Db, DbError};
use crate::grpc::Channel;
use crate::lifecycle::Lifecycle;

/// Duration of a claim on rows. Longer than all deliveries of one round; also the delay of events whose relay was killed.
const CLAIM_LEASE: Duration = Duration::from_secs(20);
/// Deadline of one delivery.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(5);
/// Time in which a refused batch is delivered by repository. With one delivery before and one after it, less than the lease.
const SPLIT_TIMEOUT: Duration = Duration::from_secs(12);
/// Time between two looks for rows without a wake-up.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Longest time that a writer waits for the delivery of its own event.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(50);
/// Longest delay before the next attempt.
const MAX_BACKOFF: Duration = Duration::from_secs(60);
/// Time for which delivered rows stay in the tables.
const RETENTION: Duration = Duration::from_secs(7 * 24 * 3600);
const PURGE_INTERVAL: Duration = Duration::from_secs(3600);

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
    subscribers: Subscribers,
    /// Wakes the task of a subscriber. One task per subscriber, so that a slow one does not delay the others.
    wake: HashMap<&'static str, Notify>,
    /// Senders of [`FlushHandle`]s by event id, one per subscriber.
    waiting: Mutex<HashMap<String, Vec<oneshot::Sender<()>>>>,
}

/// The outcome of one delivery.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Accepted,
    Refused,
    /// The subscriber did not respond.
    Unreachable,
}

impl Outcome {
    fn from_code(code: Code) -> Self {
        match code {
            Code::Unavailable | Code::DeadlineExceeded => Self::Unreachable,
            _ => Self::Refused,
        }
    }
}

/// Waits for the delivery of one event. Must be made before the commit, so that it cannot miss the delivery.
#[derive(Debug)]
pub struct FlushHandle {
    relay: Relay,
    event_id: String,
    delivered: Vec<oneshot::Receiver<()>>,
}

impl Relay {
    /// Returns a relay of the table `outbox` of `db`.
    #[must_use]
    pub fn new(db: Db, clock: Clock, subscribers: Subscribers) -> Self {
        let wake = subscribers.keys().map(|name| (*name, Notify::new())).collect();
        Self(Arc::new(Inner { db, clock, subscribers, wake, waiting: Mutex::default() }))
    }

    /// Starts the tasks that deliver and purge rows until `life` stops.
    pub fn start(&self, life: &Lifecycle) {
        for (name, channel) in &self.0.subscribers {
            let (name, relay, life2, channel) = (*name, self.clone(), life.clone(), channel.clone());
            life.spawn("relay", async move { relay.run(name, channel, life2).await });
        }
        let (relay, life2) = (self.clone(), life.clone());
        life.spawn("outbox purge", async move { relay.purge(life2).await });
    }

    /// Returns a handle that waits for the delivery of `event` to a number of subscribers. Call this before the commit and
    /// [`FlushHandle::wait`] after it.
    ///
    /// # Panics
    /// Never: nothing panics while the lock is held.
    #[must_use]
    pub fn flush(&self, event: &Event, subscribers: usize) -> FlushHandle {
        let mut waiting = self.0.waiting.lock().expect("nothing panics while it is held");
        let senders = waiting.entry(event.event_id.clone()).or_default();
        let delivered = (0..subscribers)
            .map(|_| {
                let (sender, receiver) = oneshot::channel();
                senders.push(sender);
                receiver
            })
            .collect();
        drop(waiting);
        FlushHandle { relay: self.clone(), event_id: event.event_id.clone(), delivered }
    }

    /// Makes all tasks look for rows now instead of at the next poll.
    pub fn wake(&self) {
        for notify in self.0.wake.values() {
            notify.notify_one();
        }
    }

    /// Delivers to one subscriber until `life` stops.
    async fn run(&self, name: &'static str, channel: Channel, life: Lifecycle) {
        let mut sink = EventSinkClient::new(channel);
        let notify = &self.0.wake[name];
        while !life.is_stopping() {
            match self.round(name, &mut sink).await {
                // There may be more rows than one claim takes.
                Ok(count) if count > 0 => continue,
                Ok(_) => {}
                Err(error) => tracing::warn!(%error, subscriber = name, "outbox round failed"),
            }
            tokio::select! {
                () = life.stopping() => {}
                () = notify.notified() => {}
                () = tokio::time::sleep(POLL_INTERVAL) => {}
            }
        }
    }

    /// Claims rows and delivers them. Returns the number of rows that were accepted.
    async fn round(&self, name: &'static str, sink: &mut EventSinkClient<Channel>) -> Result<usize, DbError> {
        let now = self.0.clock.now_us();
        let rows = rows::claim(&self.0.db, name, now, now + micros(CLAIM_LEASE)).await?;
        if rows.is_empty() {
            return Ok(0);
        }
        let started = tokio::time::Instant::now();
        let mut last = self.deliver(name, sink, &rows).await?;
        if last == Outcome::Accepted {
            return Ok(rows.len());
        }
        // An event that is refused must delay the events of its own repository only.
        let mut by_repository: HashMap<i64, Vec<OutboxRow>> = HashMap::new();
        for row in rows {
            by_repository.entry(row.repository_id).or_default().push(row);
        }
        let mut count = 0;
        let mut unreachable = 0;
        for rows in by_repository.values() {
            // An unreachable subscriber is not called for every repository, and the round must end within the lease.
            let is_attempted = started.elapsed() < SPLIT_TIMEOUT && unreachable < 2;
            last = if is_attempted { self.deliver(name, sink, rows).await? } else { last };
            if is_attempted && last == Outcome::Accepted {
                count += rows.len();
                unreachable = 0;
                continue;
            }
            unreachable += usize::from(last == Outcome::Unreachable);
            let attempts = rows.first().map_or(0, |row| row.attempts);
            rows::failed(&self.0.db, rows, self.0.clock.now_us() + micros(backoff(attempts))).await?;
        }
        Ok(count)
    }

    /// Delivers rows in one call and marks them if the subscriber accepted them.
    async fn deliver(
        &self,
        name: &'static str,
        sink: &mut EventSinkClient<Channel>,
        rows: &[OutboxRow],
    ) -> Result<Outcome, DbError> {
        let events = rows.iter().filter_map(decode).collect();
        let mut request = tonic::Request::new(DeliverRequest { events });
        request.set_timeout(DELIVERY_TIMEOUT);
        if let Err(status) = sink.deliver(request).await {
            tracing::warn!(subscriber = name, code = ?status.code(), count = rows.len(), "events were not taken");
            metrics::counter!("ferrite_outbox_failures_total", "subscriber" => name).increment(1);
            return Ok(Outcome::from_code(status.code()));
        }
        metrics::counter!("ferrite_outbox_delivered_total", "subscriber" => name).increment(rows.len() as u64);
        self.notify(rows);
        rows::delivered(&self.0.db, rows, self.0.clock.now_us()).await?;
        Ok(Outcome::Accepted)
    }

    /// Wakes the [`FlushHandle`]s of these rows. They wait for the subscriber's response, not for the mark in the table.
    fn notify(&self, rows: &[OutboxRow]) {
        let mut waiting = self.0.waiting.lock().expect("nothing panics while it is held");
        for row in rows {
            if let Some(sender) = waiting.get_mut(&row.event_id).and_then(Vec::pop) {
                let _ = sender.send(());
            }
        }
    }

    async fn purge(&self, life: Lifecycle) {
        while !life.is_stopping() {
            if let Err(error) = rows::purge(&self.0.db, self.0.clock.now_us() - micros(RETENTION)).await {
                tracing::warn!(%error, "outbox purge failed");
            }
            tokio::select! {
                () = life.stopping() => {}
                () = tokio::time::sleep(PURGE_INTERVAL) => {}
            }
        }
    }
}

impl FlushHandle {
    /// Wakes the relay and waits until every subscriber has accepted the event, at most 50 ms. After that the relay goes on delivering
    /// the event without the caller.
    pub async fn wait(self) {
        self.wait_at_most(FLUSH_TIMEOUT).await;
    }

    /// Waits as [`FlushHandle::wait`], but at most `limit`: for an effect that the next request of the same client must see.
    pub async fn wait_at_most(mut self, limit: Duration) {
        self.relay.wake();
        let all = async {
            for delivered in self.delivered.drain(..) {
                let _ = delivered.await;
            }
        };
        let _ = tokio::time::timeout(limit, all).await;
    }
}

impl Drop for FlushHandle {
    fn drop(&mut self) {
        if let Ok(mut waiting) = self.relay.0.waiting.lock() {
            waiting.remove(&self.event_id);
        }
    }
}

fn decode(row: &OutboxRow) -> Option<Event> {
    let event = Event::decode(row.payload.as_slice());
    if let Err(error) = &event {
        tracing::error!(%error, event.id = row.event_id, "outbox row cannot be read and is skipped");
    }
    event.ok()
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// Returns the delay before the next attempt: 100 ms, doubled by each failed attempt, at most [`MAX_BACKOFF`].
fn backoff(attempts: i64) -> Duration {
    let doublings = u32::try_from(attempts.clamp(0, 10)).unwrap_or(10);
    (Duration::from_millis(100) * 2_u32.pow(doublings)).min(MAX_BACKOFF)
}
