//! Lets a writer wait for the delivery of its event.

use std::sync::Arc;
use std::time::Duration;

use ferrite_proto::events::Event;
use tokio::sync::oneshot;

use super::relay::Relay;
use super::rows;

/// Limit for a writer that waits for its own event.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(50);
/// Time before a waiting writer first checks whether another replica delivered its event. Doubles
/// with each check.
const MIN_LOOK_PAUSE: Duration = Duration::from_millis(15);
const MAX_LOOK_PAUSE: Duration = Duration::from_millis(120);

/// Waits for the delivery of one event. Must be created before the commit, so that it cannot miss
/// the delivery.
#[derive(Debug)]
pub struct FlushHandle {
    relay: Relay,
    event_id: String,
    subscribers: Vec<Arc<str>>,
    delivered: Vec<oneshot::Receiver<()>>,
    /// True if the relay knows of the event.
    is_known: bool,
}

impl Relay {
    /// Returns a handle that waits for the delivery of `event` to these of its subscribers. Call
    /// this before the commit, and [`FlushHandle::wait`] after it.
    #[must_use]
    pub fn flush(&self, event: &Event, subscribers: &[&str]) -> FlushHandle {
        let (relay, event_id) = (self.clone(), event.event_id.clone());
        let subscribers: Vec<Arc<str>> = subscribers.iter().map(|name| Arc::from(*name)).collect();
        self.set_awaited(&subscribers);
        let delivered = self.0.waiters.add(&event_id, &subscribers);
        FlushHandle { relay, event_id, subscribers, delivered, is_known: false }
    }
}

impl FlushHandle {
    /// Marks the event as known to the relay, which then need not be woken.
    pub(super) fn known(mut self) -> Self {
        self.is_known = true;
        self
    }

    /// Wakes the relay and waits until all subscribers have accepted the event, at most 50 ms. The
    /// delivery continues after that.
    pub async fn wait(self) {
        self.wait_at_most(FLUSH_TIMEOUT).await;
    }

    /// Like [`FlushHandle::wait`], but waits at most `limit`: for an effect that the same client's
    /// next request must see.
    pub async fn wait_at_most(mut self, limit: Duration) {
        if !self.is_known {
            self.relay.wake();
        }
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

    /// Waits for the delivery mark in the table, because another replica may have claimed the
    /// event, which this process does not hear about. On SQLite each service has a single process.
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
