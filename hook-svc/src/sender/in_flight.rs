//! Counts the deliveries that this process is sending, per hook.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ferrite_proto::id::HookId;
use parking_lot::Mutex;

use super::{MAX_SENDS, MAX_SENDS_PER_HOOK};
use crate::store::queues::QueueKey;

/// Silent hooks to remember. Further ones get the normal share of sends.
const MAX_SILENT_HOOKS: usize = 10_000;

/// Clones share the counts.
#[derive(Clone, Debug, Default)]
pub(super) struct InFlight(Arc<Mutex<Counts>>);

#[derive(Debug, Default)]
struct Counts {
    total: usize,
    by_hook: HashMap<HookId, usize>,
    /// Hooks whose last request timed out.
    silent: HashSet<HookId>,
}

/// Permission for one send, released on drop.
#[derive(Debug)]
pub(super) struct Slot {
    in_flight: InFlight,
    pub(super) queue: QueueKey,
}

impl Counts {
    fn share(&self, hook: HookId) -> usize {
        if self.silent.contains(&hook) { 1 } else { MAX_SENDS_PER_HOOK }
    }
}

impl InFlight {
    /// Returns the hooks that cannot take another send, or `None` if this process cannot.
    pub(super) fn saturated(&self) -> Option<Vec<HookId>> {
        let counts = self.0.lock();
        if counts.total >= MAX_SENDS {
            return None;
        }
        let full = counts.by_hook.iter().filter(|(hook, count)| **count >= counts.share(**hook));
        Some(full.map(|(hook, _)| *hook).collect())
    }

    /// Reserves slots for `queues` in order, as far as they last.
    pub(super) fn reserve(&self, queues: Vec<QueueKey>) -> Vec<Slot> {
        let mut counts = self.0.lock();
        let mut slots = Vec::new();
        for queue in queues {
            if counts.total >= MAX_SENDS {
                break;
            }
            let share = counts.share(queue.hook);
            let count = counts.by_hook.entry(queue.hook).or_default();
            if *count < share {
                *count += 1;
                counts.total += 1;
                slots.push(Slot { in_flight: self.clone(), queue });
            }
        }
        slots
    }

    pub(super) fn set_silent(&self, hook: HookId, is_silent: bool) {
        let mut counts = self.0.lock();
        if !is_silent {
            counts.silent.remove(&hook);
        } else if counts.silent.len() < MAX_SILENT_HOOKS {
            counts.silent.insert(hook);
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut counts = self.in_flight.0.lock();
        counts.total -= 1;
        if let Some(count) = counts.by_hook.get_mut(&self.queue.hook) {
            *count -= 1;
            if *count == 0 {
                counts.by_hook.remove(&self.queue.hook);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ferrite_proto::id::RepositoryId;

    use super::*;

    fn queues(hook: i64, count: i64) -> Vec<QueueKey> {
        let queue = |repository| QueueKey {
            hook: HookId(hook),
            repository: RepositoryId(repository),
            source: 1,
            delivery_id: 0,
        };
        (0..count).map(queue).collect()
    }

    #[test]
    fn a_hook_has_its_share_and_a_silent_one_a_single_send() {
        let in_flight = InFlight::default();
        let slots = in_flight.reserve([queues(1, 20), queues(2, 3)].concat());
        assert_eq!(slots.len(), MAX_SENDS_PER_HOOK + 3);
        assert_eq!(in_flight.saturated(), Some(vec![HookId(1)]));
        in_flight.set_silent(HookId(2), true);
        assert_eq!(in_flight.saturated().unwrap().len(), 2);
        drop(slots);
        assert_eq!(in_flight.saturated(), Some(vec![]));
        assert_eq!(in_flight.reserve(queues(2, 3)).len(), 1);
        in_flight.set_silent(HookId(2), false);
        assert_eq!(in_flight.reserve(queues(2, 20)).len(), MAX_SENDS_PER_HOOK);
    }

    #[test]
    fn all_hooks_together_have_a_bound() {
        let in_flight = InFlight::default();
        let slots = in_flight.reserve((0..100).flat_map(|hook| queues(hook, 8)).collect());
        assert_eq!(slots.len(), MAX_SENDS);
        assert_eq!(in_flight.saturated(), None);
        assert!(in_flight.reserve(queues(1000, 1)).is_empty());
    }
}
