//! Wake-ups of those who wait for an event of a repository, and the repositories whose feeds may have become too long.

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;

use ferrite_proto::id::RepositoryId;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// Groups of repositories. Those of one group are woken together.
const GROUPS: usize = 256;
/// Facts after which the length of a feed is looked at.
const FACTS_PER_LOOK: u32 = 100;
/// Repositories whose facts are counted. Beyond them the counts start anew.
const MAX_COUNTED: usize = 10_000;

/// Those who wait for events, in this process. Clones are one.
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
    /// Returns a future that completes with the next event of the repository, and sometimes without one.
    pub(super) fn notified(&self, repository: RepositoryId) -> Notified<'_> {
        self.group(repository).notified()
    }

    /// Wakes those who wait for events of the repositories, one entry for each fact.
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

    /// Returns the repositories that got many events since the last call.
    pub(super) fn take_grown(&self) -> Vec<RepositoryId> {
        mem::take(&mut self.0.counts.lock().grown)
    }

    fn group(&self, repository: RepositoryId) -> &Notify {
        let place = usize::try_from(repository.0.unsigned_abs()).unwrap_or(0) % GROUPS;
        &self.0.groups[place]
    }
}
