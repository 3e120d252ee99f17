//! Wakes readers that wait for an event, and remembers repositories whose feeds may have grown too
//! long.

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;

use ferrite_proto::id::RepositoryId;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// Repositories are grouped. An event wakes all readers of its group.
const GROUPS: usize = 256;
/// Facts of a repository before its feed's length is checked.
const FACTS_PER_LOOK: u32 = 100;
/// Repositories to count facts for. Beyond this number, all counts start over.
const MAX_COUNTED: usize = 10_000;

/// The waiting readers of this process. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct FeedWaiters(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    groups: Vec<Notify>,
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    facts: HashMap<RepositoryId, u32>,
    grown: Vec<RepositoryId>,
}

impl Default for FeedWaiters {
    fn default() -> Self {
        let groups = std::iter::repeat_with(Notify::new).take(GROUPS).collect();
        Self(Arc::new(Inner { groups, counts: Mutex::default() }))
    }
}

impl FeedWaiters {
    /// Returns a future that completes with the repository's next event. It may also complete
    /// without one.
    pub(super) fn notified(&self, repository: RepositoryId) -> Notified<'_> {
        self.group(repository).notified()
    }

    /// Wakes readers. `repositories` has one entry for each fact.
    pub(crate) fn notify(&self, repositories: &[RepositoryId]) {
        let mut counts = self.0.counts.lock();
        for repository in repositories {
            self.group(*repository).notify_waiters();
            if counts.facts.len() >= MAX_COUNTED {
                counts.facts.clear();
            }
            let count = counts.facts.entry(*repository).or_default();
            *count += 1;
            if *count >= FACTS_PER_LOOK {
                counts.facts.remove(repository);
                counts.grown.push(*repository);
            }
        }
    }

    /// Returns the repositories that received many events since the last call.
    pub(super) fn take_grown(&self) -> Vec<RepositoryId> {
        mem::take(&mut self.0.counts.lock().grown)
    }

    fn group(&self, repository: RepositoryId) -> &Notify {
        let place = usize::try_from(repository.0.unsigned_abs()).unwrap_or(0) % GROUPS;
        &self.0.groups[place]
    }
}
