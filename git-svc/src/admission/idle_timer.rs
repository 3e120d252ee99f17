//! Measures the time since bytes last moved on a connection.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use tokio::time::Instant;

/// Time of the last byte, shared by the tasks of a connection.
pub(crate) struct IdleTimer {
    start: Instant,
    moved_ms: AtomicU64,
}

impl IdleTimer {
    pub(crate) fn new() -> Self {
        Self { start: Instant::now(), moved_ms: AtomicU64::new(0) }
    }

    /// Records that bytes moved now.
    pub(crate) fn touch(&self) {
        let now = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.moved_ms.store(now, Ordering::Relaxed);
    }

    /// Waits until no byte has moved for `limit`.
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
