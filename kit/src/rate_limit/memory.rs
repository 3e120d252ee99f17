//! Counters of one process, for rate limits without Redis.
//!
//! Not here: hashing of keys, which the limiter does.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// SHA-256 of a key, so that no name or address is stored in clear text.
pub(super) type KeyHash = [u8; 32];

/// Most windows in memory at once. Beyond it the oldest window is dropped.
pub(super) const MAX_WINDOWS: usize = 10_000;

/// The windows of one process.
#[derive(Debug, Default)]
pub(super) struct MemoryCounters {
    windows: HashMap<KeyHash, Window>,
    /// Keys of `windows` in the order in which the windows began.
    order: BTreeMap<u64, KeyHash>,
    /// Number of windows begun so far.
    begun: u64,
}

#[derive(Clone, Copy, Debug)]
struct Window {
    end_us: i64,
    count: u32,
    /// Key of the window in [`MemoryCounters::order`].
    sequence: u64,
}

impl MemoryCounters {
    pub(super) fn count(&mut self, hash: KeyHash, length: Duration, now_us: i64) -> u32 {
        if let Some(window) = self.windows.get_mut(&hash)
            && now_us < window.end_us
        {
            window.count = window.count.saturating_add(1);
            return window.count;
        }
        self.clear(&hash);
        while self.windows.len() >= MAX_WINDOWS
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.windows.remove(&oldest);
        }
        let end_us = now_us.saturating_add(i64::try_from(length.as_micros()).unwrap_or(i64::MAX));
        self.begun += 1;
        self.windows.insert(hash, Window { end_us, count: 1, sequence: self.begun });
        self.order.insert(self.begun, hash);
        1
    }

    pub(super) fn peek(&self, hash: &KeyHash, now_us: i64) -> (u32, Duration) {
        match self.windows.get(hash) {
            Some(window) if now_us < window.end_us => {
                (window.count, Duration::from_micros(window.end_us.abs_diff(now_us)))
            }
            _ => (0, Duration::ZERO),
        }
    }

    pub(super) fn clear(&mut self, hash: &KeyHash) {
        if let Some(window) = self.windows.remove(hash) {
            self.order.remove(&window.sequence);
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        assert_eq!(self.windows.len(), self.order.len());
        self.windows.len()
    }
}
