//! Counters of one process, for rate limits without Redis.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use ferrite_core::micros;

use crate::redis::KeyHash;

#[derive(Debug)]
pub(super) struct MemoryCounters {
    /// Maximum number of windows. To make room, expired windows are dropped first, then the one
    /// with the fewest events, the oldest of several: many other keys must not push out a busy one.
    max_windows: usize,
    windows: HashMap<KeyHash, Window>,
    /// Windows by their end.
    ends: BTreeSet<(i64, KeyHash)>,
    /// Windows by number of events, then by age.
    counts: BTreeSet<(u64, u64, KeyHash)>,
    /// Number of windows begun so far.
    begun: u64,
}

#[derive(Clone, Copy, Debug)]
struct Window {
    end_us: i64,
    count: u64,
    /// Number of windows begun before this one.
    sequence: u64,
}

impl MemoryCounters {
    pub(super) fn new(max_windows: usize) -> Self {
        Self { max_windows, windows: HashMap::new(), ends: BTreeSet::new(), counts: BTreeSet::new(), begun: 0 }
    }

    pub(super) fn add(&mut self, hash: KeyHash, amount: u64, length: Duration, now_us: i64) -> u64 {
        if let Some(window) = self.windows.get_mut(&hash)
            && now_us < window.end_us
        {
            self.counts.remove(&(window.count, window.sequence, hash));
            window.count = window.count.saturating_add(amount);
            self.counts.insert((window.count, window.sequence, hash));
            return window.count;
        }
        self.clear(&hash);
        self.make_room(now_us);
        let end_us = now_us.saturating_add(micros(length));
        self.begun += 1;
        let window = Window { end_us, count: amount, sequence: self.begun };
        self.windows.insert(hash, window);
        self.ends.insert((end_us, hash));
        self.counts.insert((window.count, window.sequence, hash));
        window.count
    }

    /// Drops windows until there is room for another one.
    fn make_room(&mut self, now_us: i64) {
        while self.windows.len() >= self.max_windows {
            let over = self.ends.first().filter(|(end_us, _)| *end_us <= now_us).map(|(_, hash)| *hash);
            let Some(hash) = over.or_else(|| self.counts.first().map(|(.., hash)| *hash)) else { return };
            if over.is_none() {
                metrics::counter!("ferrite_rate_limit_windows_dropped_total").increment(1);
            }
            self.clear(&hash);
        }
    }

    pub(super) fn peek(&self, hash: &KeyHash, now_us: i64) -> (u64, Duration) {
        match self.windows.get(hash) {
            Some(window) if now_us < window.end_us => {
                (window.count, Duration::from_micros(window.end_us.abs_diff(now_us)))
            }
            _ => (0, Duration::ZERO),
        }
    }

    pub(super) fn clear(&mut self, hash: &KeyHash) {
        if let Some(window) = self.windows.remove(hash) {
            self.ends.remove(&(window.end_us, *hash));
            self.counts.remove(&(window.count, window.sequence, *hash));
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        assert_eq!((self.windows.len(), self.windows.len()), (self.ends.len(), self.counts.len()));
        self.windows.len()
    }
}
