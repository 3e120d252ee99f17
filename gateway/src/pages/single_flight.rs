//! Work that is done once for all who want the same at the same time. Nothing is kept: who asks
//! after the work is done begins it again.

use std::collections::HashMap;
use std::hash::Hash;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared, WeakShared};
use parking_lot::Mutex;

/// Calls that can wait for one work.
const MAX_SHARERS: usize = 512;

/// Running work by what identifies it.
#[derive(Debug)]
pub(super) struct SingleFlight<K, T: Clone>(Mutex<HashMap<K, WeakShared<BoxFuture<'static, T>>>>);

/// A call that waits for running work, which ends when no call is left.
pub(super) struct Call<'f, K: Eq + Hash, T: Clone> {
    work: Shared<BoxFuture<'static, T>>,
    /// Whether this call began the work.
    pub(super) is_first: bool,
    guard: Guard<'f, K, T>,
}

/// Forgets work that nobody waits for.
struct Guard<'f, K: Eq + Hash, T: Clone> {
    running: &'f SingleFlight<K, T>,
    key: K,
}

impl<K: Eq + Hash, T: Clone> Drop for Guard<'_, K, T> {
    fn drop(&mut self) {
        let mut works = self.running.0.lock();
        if works.get(&self.key).is_some_and(|work| work.upgrade().is_none()) {
            works.remove(&self.key);
        }
    }
}

impl<K, T: Clone> Default for SingleFlight<K, T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Clone + Eq + Hash, T: Clone> SingleFlight<K, T> {
    /// Joins the work of `key`, or begins it. `None` if too many share it.
    pub(super) fn join(&self, key: K, begin: impl FnOnce() -> BoxFuture<'static, T>) -> Option<Call<'_, K, T>> {
        let mut works = self.0.lock();
        let running = works.get(&key).and_then(WeakShared::upgrade).filter(|work| work.peek().is_none());
        let is_first = running.is_none();
        let work = running.unwrap_or_else(|| begin().shared());
        if work.strong_count().is_some_and(|count| count > MAX_SHARERS) {
            return None;
        }
        if is_first && let Some(weak) = work.downgrade() {
            works.insert(key.clone(), weak);
        }
        drop(works);
        Some(Call { work, is_first, guard: Guard { running: self, key } })
    }
}

impl<K: Eq + Hash, T: Clone> Call<'_, K, T> {
    /// Waits for the result of the work.
    pub(super) async fn outcome(self) -> T {
        let Self { work, guard, .. } = self;
        let outcome = work.await;
        drop(guard);
        outcome
    }
}

#[cfg(test)]
mod tests {
    use futures_util::poll;
    use tokio::sync::oneshot;

    use super::*;

    /// Work that ends with what is sent.
    fn work(received: oneshot::Receiver<u8>) -> BoxFuture<'static, Option<u8>> {
        async { received.await.ok() }.boxed()
    }

    fn none() -> BoxFuture<'static, Option<u8>> {
        async { None }.boxed()
    }

    #[tokio::test]
    async fn work_is_done_once_for_all_and_outlives_the_first() {
        let running = SingleFlight::default();
        let (send, received) = oneshot::channel();
        let first = running.join("a", || work(received)).unwrap();
        let second = running.join("a", none).unwrap();
        let other = running.join("b", none).unwrap();
        assert_eq!((first.is_first, second.is_first, other.is_first), (true, false, true));
        assert_eq!(other.outcome().await, None);
        let (mut first, mut second) = (Box::pin(first.outcome()), Box::pin(second.outcome()));
        assert!(poll!(&mut first).is_pending() && poll!(&mut second).is_pending());
        drop(first);
        send.send(7).unwrap();
        assert_eq!(second.await, Some(7));
        assert!(running.join("a", none).unwrap().is_first, "nothing is kept");
        assert!(running.0.lock().is_empty());
    }

    #[tokio::test]
    async fn work_ends_when_all_have_left() {
        let running = SingleFlight::default();
        let (send, received) = oneshot::channel();
        let calls = [running.join("a", || work(received)).unwrap(), running.join("a", none).unwrap()];
        drop(calls);
        assert!(send.send(7).is_err() && running.0.lock().is_empty());
    }

    #[test]
    fn only_so_many_share_one_work() {
        let running = SingleFlight::default();
        let (_send, received) = oneshot::channel();
        let first = running.join("a", || work(received)).unwrap();
        let calls: Vec<_> = std::iter::from_fn(|| running.join("a", none)).collect();
        assert_eq!(calls.len(), MAX_SHARERS - 1);
        drop((first, calls));
        assert!(running.join("a", none).is_some());
    }
}
