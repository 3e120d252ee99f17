//! The queue of repositories whose refs changed, for work that follows in the background.

use std::{
    collections::{BTreeSet, HashSet, VecDeque},
    sync::Arc,
};

use ferrite_proto::id::RepositoryId;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Repositories in the order in which they changed, each at most once. Not kept over a restart.
/// Clones share one queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChangedRepositories(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    queue: Mutex<Queue>,
    added: Notify,
    urged: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    order: VecDeque<RepositoryId>,
    queued: HashSet<RepositoryId>,
    /// Repositories for which a reader waits. They come first.
    urgent: BTreeSet<RepositoryId>,
}

impl ChangedRepositories {
    /// Adds a repository after its change is committed.
    pub(crate) fn note(&self, id: RepositoryId) {
        let mut queue = self.0.queue.lock();
        if queue.queued.insert(id) {
            queue.order.push_back(id);
        }
        drop(queue);
        self.0.added.notify_one();
    }

    /// Puts a repository before all others, because a reader waits for it.
    pub(crate) fn urge(&self, id: RepositoryId) {
        self.0.queue.lock().urgent.insert(id);
        self.0.added.notify_one();
        self.0.urged.notify_one();
    }

    /// Removes the next repository.
    pub(crate) fn next(&self) -> Option<RepositoryId> {
        let mut queue = self.0.queue.lock();
        if let Some(id) = queue.urgent.pop_first() {
            return Some(id);
        }
        let id = queue.order.pop_front()?;
        queue.queued.remove(&id);
        Some(id)
    }

    /// Waits until a repository was added. May return early.
    pub(crate) async fn added(&self) {
        self.0.added.notified().await;
    }

    /// Waits until a reader urges. May return early.
    pub(crate) async fn urged(&self) {
        self.0.urged.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future as _;

    use super::*;

    #[tokio::test]
    async fn repositories_come_once_in_order_and_first_those_that_readers_wait_for() {
        let changed = ChangedRepositories::default();
        for id in [3, 1, 3, 2] {
            changed.note(RepositoryId(id));
        }
        changed.added().await;
        changed.urge(RepositoryId(9));
        changed.urge(RepositoryId(2));
        changed.urged().await;
        let all: Vec<_> = std::iter::from_fn(|| changed.next()).map(|id| id.0).collect();
        // The second time there is nothing left to do for it.
        assert_eq!(all, [2, 9, 3, 1, 2]);
        changed.note(RepositoryId(3));
        assert_eq!((changed.next(), changed.next()), (Some(RepositoryId(3)), None));
        let urged = std::pin::pin!(changed.urged());
        assert!(urged.poll(&mut std::task::Context::from_waker(std::task::Waker::noop())).is_pending());
    }
}
