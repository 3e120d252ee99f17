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

/// A claim is given up after this long: longer than any delivery takes, and as long as events wait after a relay was killed.
const LEASE: Duration = Duration::from_secs(20);
/// How long one delivery may take.
const DELIVERY: Duration = Duration::from_secs(5);
/// How long a refused batch is tried in parts; with the deliveries before and after, less than a lease.
const SPLIT: Duration = Duration::from_secs(12);
const POLL: Duration = Duration::from_secs(1);
/// How long a writer waits for its own event before it answers.
const FLUSH: Duration = Duration::from_millis(50);
const MAX_BACKOFF: Duration = Duration::from_secs(60);
const KEEP: Duration = Duration::from_secs(7 * 24 * 3600);
const PURGE_EVERY: Duration = Duration::from_secs(3600);

/// The services that take a service's events, by the name in the `subscriber` column.
pub type Subscribers = HashMap<&'static str, Channel>;

/// Delivers the rows of one service's outbox: in order per repository, at least once, until each is taken. Several replicas may
/// run at once.
#[derive(Clone, Debug)]
pub struct Relay(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    db: Db,
    clock: Clock,
    subscribers: Subscribers,
    /// One per subscriber: a slow one holds nobody else up.
    wake: HashMap<&'static str, Notify>,
    waiting: Mutex<HashMap<String, Vec<oneshot::Sender<()>>>>,
}

/// What became of one delivery.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Taken,
    Refused,
    /// Nobody answered.
    Unreachable,
}

impl Outcome {
    fn refused(code: Code) -> Self {
        match code {
            Code::Unavailable | Code::DeadlineExceeded => Self::Unreachable,
            _ => Self::Refused,
        }
    }
}

/// Waits for one event's delivery; made before the commit, so that no delivery is missed.
#[derive(Debug)]
pub struct FlushHandle {
    relay: Relay,
    event_id: String,
    delivered: Vec<oneshot::Receiver<()>>,
}

impl Relay {
    /// A relay over the `outbox` table of `db`.
    #[must_use]
    pub fn new(db: Db, clock: Clock, subscribers: Subscribers) -> Self {
        let wake = subscribers.keys().map(|name| (*name, Notify::new())).collect();
        Self(Arc::new(Inner { db, clock, subscribers, wake, waiting: Mutex::default() }))
    }

    /// Starts delivering, until `life` stops.
    pub fn start(&self, life: &Lifecycle) {
        for (name, channel) in &self.0.subscribers {
            let (name, relay, life2, channel) = (*name, self.clone(), life.clone(), channel.clone());
            life.spawn("relay", async move { relay.run(name, channel, life2).await });
        }
        let (relay, life2) = (self.clone(), life.clone());
        life.spawn("outbox purge", async move { relay.purge(life2).await });
    }

    /// Prepares to wait for `event`'s delivery to `subscribers` subscribers. Call it before the commit, and [`FlushHandle::wait`] after.
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

    /// Looks for rows now rather than at the next poll.
    pub fn wake(&self) {
        for notify in self.0.wake.values() {
            notify.notify_one();
        }
    }

    async fn run(&self, name: &'static str, channel: Channel, life: Lifecycle) {
        let mut sink = EventSinkClient::new(channel);
        let notify = &self.0.wake[name];
        while !life.is_stopping() {
            match self.round(name, &mut sink).await {
                // A full round: there may be more.
                Ok(count) if count > 0 => continue,
                Ok(_) => {}
                Err(error) => tracing::warn!(%error, subscriber = name, "outbox round failed"),
            }
            tokio::select! {
                () = life.stopping() => {}
                () = notify.notified() => {}
                () = tokio::time::sleep(POLL) => {}
            }
        }
    }

    async fn round(&self, name: &'static str, sink: &mut EventSinkClient<Channel>) -> Result<usize, DbError> {
        let now = self.0.clock.now_us();
        let rows = rows::claim(&self.0.db, name, now, now + micros(LEASE)).await?;
        if rows.is_empty() {
            return Ok(0);
        }
        let started = tokio::time::Instant::now();
        let mut last = self.deliver(name, sink, &rows).await?;
        if last == Outcome::Taken {
            return Ok(rows.len());
        }
        // One repository's event that is refused must not hold up the others.
        let mut by_repository: HashMap<i64, Vec<OutboxRow>> = HashMap::new();
        for row in rows {
            by_repository.entry(row.repository_id).or_default().push(row);
        }
        let mut count = 0;
        let mut unreachable = 0;
        for rows in by_repository.values() {
            // A subscriber that is away is not asked once for each repository, and a claim not held for longer than it lasts.
            let ask = started.elapsed() < SPLIT && unreachable < 2;
            last = if ask { self.deliver(name, sink, rows).await? } else { last };
            if ask && last == Outcome::Taken {
                count += rows.len();
                unreachable = 0;
                continue;
            }
            unreachable += usize::from(last == Outcome::Unreachable);
            let first = rows.first().map_or(0, |row| row.attempts);
            rows::failed(&self.0.db, rows, self.0.clock.now_us() + micros(backoff(first))).await?;
        }
        Ok(count)
    }

    /// Delivers rows and marks them when the subscriber took them.
    async fn deliver(
        &self,
        name: &'static str,
        sink: &mut EventSinkClient<Channel>,
        rows: &[OutboxRow],
    ) -> Result<Outcome, DbError> {
        let events = rows.iter().filter_map(decode).collect();
        let mut request = tonic::Request::new(DeliverRequest { events });
        request.set_timeout(DELIVERY);
        if let Err(status) = sink.deliver(request).await {
            tracing::warn!(subscriber = name, code = ?status.code(), count = rows.len(), "events were not taken");
            metrics::counter!("ferrite_outbox_failures_total", "subscriber" => name).increment(1);
            return Ok(Outcome::refused(status.code()));
        }
        metrics::counter!("ferrite_outbox_delivered_total", "subscriber" => name).increment(rows.len() as u64);
        self.notify(rows);
        rows::delivered(&self.0.db, rows, self.0.clock.now_us()).await?;
        Ok(Outcome::Taken)
    }

    /// Lets those go on who wait for these rows. They wait for the subscriber, not for the mark that it took them.
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
            if let Err(error) = rows::purge(&self.0.db, self.0.clock.now_us() - micros(KEEP)).await {
                tracing::warn!(%error, "outbox purge failed");
            }
            tokio::select! {
                () = life.stopping() => {}
                () = tokio::time::sleep(PURGE_EVERY) => {}
            }
        }
    }
}

impl FlushHandle {
    /// Wakes the relay and waits until every subscriber took the event, at most 50 ms. Late is not lost: the row stays.
    pub async fn wait(mut self) {
        self.relay.wake();
        let all = async {
            for delivered in self.delivered.drain(..) {
                let _ = delivered.await;
            }
        };
        let _ = tokio::time::timeout(FLUSH, all).await;
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

fn backoff(attempts: i64) -> Duration {
    let doublings = u32::try_from(attempts.clamp(0, 10)).unwrap_or(10);
    (Duration::from_millis(100) * 2_u32.pow(doublings)).min(MAX_BACKOFF)
}
