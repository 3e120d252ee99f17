use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// Senders of one event, with the subscriber's name.
type Senders = Vec<(Arc<str>, oneshot::Sender<()>)>;

/// Senders of a relay's flush handles, by event id.
#[derive(Debug, Default)]
pub(super) struct FlushWaiters(Mutex<HashMap<String, Senders>>);

impl FlushWaiters {
    /// Returns receivers that are woken when the event is delivered to these subscribers.
    pub(super) fn add(&self, event_id: &str, subscribers: &[Arc<str>]) -> Vec<oneshot::Receiver<()>> {
        let mut receivers = Vec::with_capacity(subscribers.len());
        let mut waiting = self.0.lock();
        let senders = waiting.entry(event_id.to_owned()).or_default();
        for subscriber in subscribers {
            let (sender, receiver) = oneshot::channel();
            senders.push((Arc::clone(subscriber), sender));
            receivers.push(receiver);
        }
        receivers
    }

    /// Wakes the receivers that wait for these events at a subscriber.
    pub(super) fn notify<'a>(&self, subscriber: &str, event_ids: impl Iterator<Item = &'a str>) {
        let mut waiting = self.0.lock();
        for event_id in event_ids {
            let Some(senders) = waiting.get_mut(event_id) else { continue };
            for (_, sender) in senders.extract_if(.., |(name, _)| **name == *subscriber) {
                let _ = sender.send(());
            }
        }
    }

    pub(super) fn remove(&self, event_id: &str) {
        self.0.lock().remove(event_id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delivery_wakes_those_who_wait_for_its_subscriber() {
        let waiters = FlushWaiters::default();
        let mut receivers = waiters.add("e1", &["one".into(), "two".into()]);
        waiters.notify("three", ["e1", "e2"].into_iter());
        assert!(receivers.iter_mut().all(|receiver| receiver.try_recv().is_err()));
        waiters.notify("two", ["e1"].into_iter());
        assert!(receivers[0].try_recv().is_err() && receivers[1].try_recv().is_ok());
        waiters.notify("one", ["e1"].into_iter());
        assert!(receivers[0].try_recv().is_ok());
    }
}
