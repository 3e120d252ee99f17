//! The wait of a writer for the delivery of its event.

use std::sync::Arc;
use std::time::Duration;

use ferrite_proto::events::Event;
use tokio::sync::oneshot;

use super::relay::Relay;
use super::rows;

/// Longest time that a writer waits for the delivery of its own event.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(50);
/// Time after which a writer that waits looks for the first time if another replica has delivered its event. Doubled by each further look.
const MIN_LOOK_PAUSE: Duration = Duration::from_millis(15);
const MAX_LOOK_PAUSE: Duration = Duration::from_millis(120);

/// Waits for the delivery of one event. Must be made before the commit, so that it cannot miss the delivery.
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
    /// Returns a handle that waits for the delivery of `event` to these of its subscribers. Call this before the commit and
    /// [`FlushHandle::wait`] after it.
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
    /// Returns the handle of an event that the relay knows of, and need not be woken for.
    pub(super) fn known(mut self) -> Self {
        self.is_known = true;
        self
    }

    /// Wakes the relay and waits until each of the subscribers has accepted the event, at most 50 ms. After that the relay goes on delivering
    /// the event without the caller.
    pub async fn wait(self) {
        self.wait_at_most(FLUSH_TIMEOUT).await;
    }

    /// Waits as [`FlushHandle::wait`], but at most `limit`: for an effect that the next request of the same client must see.
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
