//! Ends transfers of clients that are slower than a minimum rate, and measures the time since bytes
//! last moved.
//!
//! The rate counts only time spent waiting for the client.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use git_store::types::error::GitError;
use tokio::time::Instant;

/// Bytes moved by one client in one direction, and the time spent waiting for them.
#[derive(Debug)]
pub(crate) struct MinThroughput {
    /// Longest single wait, and the total wait allowed on top of what the bytes earn.
    pause: Duration,
    /// In bytes per second; 0 for no minimum.
    min_rate: u64,
    waited: Duration,
    bytes: u64,
}

impl MinThroughput {
    pub(crate) fn new(pause: Duration, min_rate: u64) -> Self {
        Self { pause, min_rate, waited: Duration::ZERO, bytes: 0 }
    }

    /// Adds bytes that the client sent or received.
    pub(crate) fn add_bytes(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }

    pub(crate) fn add_wait(&mut self, time: Duration) {
        self.waited += time;
    }

    /// Forgets bytes and waits, as if the transfer started now.
    pub(crate) fn reset(&mut self) {
        (self.waited, self.bytes) = (Duration::ZERO, 0);
    }

    /// Returns whether the total wait exceeds what the bytes so far allow.
    pub(crate) fn is_slow(&self) -> bool {
        self.waited > self.allowed()
    }

    /// Awaits `moving`, which ends when the client sends or receives bytes, and adds the time it
    /// took. Fails with `TooSlow` if that exceeds the allowed wait.
    pub(crate) async fn wait<T>(&mut self, moving: impl Future<Output = T>) -> Result<T, GitError> {
        let asked = Instant::now();
        let moved = tokio::time::timeout(self.left(), moving).await.map_err(|_| GitError::TooSlow)?;
        self.waited += asked.elapsed();
        Ok(moved)
    }

    /// Longest wait allowed for the next bytes.
    fn left(&self) -> Duration {
        self.allowed().saturating_sub(self.waited).min(self.pause)
    }

    /// Total wait allowed so far.
    fn allowed(&self) -> Duration {
        match self.bytes.saturating_mul(1000).checked_div(self.min_rate) {
            Some(earned) => self.pause.saturating_add(Duration::from_millis(earned)),
            None => Duration::MAX,
        }
    }
}

/// Time of the last byte, shared by the tasks of a connection.
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

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE_TIMEOUT: Duration = Duration::from_millis(300);

    /// Returns how many times a client may move `bytes` after a pause of `pause` ms each, up to
    /// 1000.
    fn allowed_moves(min_rate: u64, bytes: usize, pause: u64) -> usize {
        let (mut throughput, pause) = (MinThroughput::new(IDLE_TIMEOUT, min_rate), Duration::from_millis(pause));
        (0..1000)
            .take_while(|_| {
                let is_in_time = pause <= throughput.left();
                throughput.add_wait(pause);
                throughput.add_bytes(bytes);
                is_in_time
            })
            .count()
    }

    #[test]
    fn a_client_that_pauses_or_is_too_slow_is_ended() {
        assert_eq!(allowed_moves(1000, 1 << 20, 301), 0);
        assert_eq!(allowed_moves(1000, 1, 50), 6);
        assert_eq!(allowed_moves(1000, 64, 50), 1000);
        assert_eq!((allowed_moves(0, 1, 50), allowed_moves(0, 1, 301)), (1000, 0));
    }

    #[test]
    fn bytes_or_a_reset_allow_more_waiting() {
        let mut throughput = MinThroughput::new(IDLE_TIMEOUT, 1000);
        throughput.add_wait(IDLE_TIMEOUT * 2);
        assert!(throughput.is_slow());
        throughput.add_bytes(300);
        assert!(!throughput.is_slow());
        throughput.add_wait(IDLE_TIMEOUT);
        assert!(throughput.is_slow());
        throughput.reset();
        assert!(!throughput.is_slow());
    }

    #[tokio::test]
    async fn a_client_that_moves_nothing_times_out() {
        let mut throughput = MinThroughput::new(Duration::from_millis(10), 1);
        throughput.wait(std::future::ready(())).await.unwrap();
        assert!(matches!(throughput.wait(std::future::pending::<()>()).await, Err(GitError::TooSlow)));
    }
}
