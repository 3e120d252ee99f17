use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use super::Hash;

/// Windows kept at once; the oldest make room.
pub(super) const WINDOWS: usize = 10_000;

/// The windows that one process counts in.
#[derive(Debug, Default)]
pub(super) struct Memory {
    windows: HashMap<Hash, Window>,
    /// The same windows in the order in which they began.
    order: BTreeMap<u64, Hash>,
    begun: u64,
}

#[derive(Clone, Copy, Debug)]
struct Window {
    end_us: i64,
    count: u32,
    place: u64,
}

impl Memory {
    pub(super) fn count(&mut self, hash: Hash, length: Duration, now_us: i64) -> u32 {
        if let Some(window) = self.windows.get_mut(&hash)
            && now_us < window.end_us
        {
            window.count = window.count.saturating_add(1);
            return window.count;
        }
        self.clear(&hash);
        while self.windows.len() >= WINDOWS
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.windows.remove(&oldest);
        }
        let end_us = now_us.saturating_add(i64::try_from(length.as_micros()).unwrap_or(i64::MAX));
        self.begun += 1;
        self.windows.insert(hash, Window { end_us, count: 1, place: self.begun });
        self.order.insert(self.begun, hash);
        1
    }

    pub(super) fn peek(&self, hash: &Hash, now_us: i64) -> (u32, Duration) {
        match self.windows.get(hash) {
            Some(window) if now_us < window.end_us => {
                (window.count, Duration::from_micros(window.end_us.abs_diff(now_us)))
            }
            _ => (0, Duration::ZERO),
        }
    }

    pub(super) fn clear(&mut self, hash: &Hash) {
        if let Some(window) = self.windows.remove(hash) {
            self.order.remove(&window.place);
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        assert_eq!(self.windows.len(), self.order.len());
        self.windows.len()
    }
}
