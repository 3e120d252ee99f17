//! Time since bytes last moved.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use tokio::time::Instant;

/// When the last byte moved.
pub(crate) struct IdleTimer {
    start: Instant,
    moved_ms: AtomicU64,
}

impl IdleTimer {
    pub(crate) fn new() -> Self {
        Self { start: Instant::now(), moved_ms: AtomicU64::new(0) }
    }

    pub(crate) fn touch(&self) {
        let now = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.moved_ms.store(now, Ordering::Relaxed);
    }

    /// Returns when nothing moved for `limit`.
    pub(crate) async fn expired(&self, limit: Duration) {
        loop {
            let moved = self.start + Duration::from_millis(self.moved_ms.load(Ordering::Relaxed));
            if moved.elapsed() >= limit {
                return;
            }
            tokio::time::sleep_until(moved + limit).await;
        }
    }
}
