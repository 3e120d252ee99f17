//! How long a client is waited for, against what it sends or takes: one that drips is not served for ever.

use std::time::Duration;

use tokio::time::Instant;

use crate::types::error::GitError;

/// The patience that is left with one client, in one direction.
#[derive(Debug)]
pub(crate) struct MinThroughput {
    /// How long it may pause at once, and in all before its pace counts.
    pause: Duration,
    /// The fewest bytes a second; none for zero.
    min_rate: u64,
    waited: Duration,
    bytes: u64,
}

impl MinThroughput {
    pub(crate) fn new(pause: Duration, min_rate: u64) -> Self {
        Self { pause, min_rate, waited: Duration::ZERO, bytes: 0 }
    }

    /// The client moved that many bytes.
    pub(crate) fn add_bytes(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }

    /// It took that long.
    pub(crate) fn add_wait(&mut self, time: Duration) {
        self.waited += time;
    }

    /// Starts again, with full patience.
    pub(crate) fn reset(&mut self) {
        (self.waited, self.bytes) = (Duration::ZERO, 0);
    }

    /// Whether the client took more time than it may.
    pub(crate) fn is_slow(&self) -> bool {
        self.waited > self.allowed()
    }

    /// Waits for the client to move something.
    ///
    /// Errors: `TooSlow`.
    pub(crate) async fn wait<T>(&mut self, moving: impl Future<Output = T>) -> Result<T, GitError> {
        let asked = Instant::now();
        let moved = tokio::time::timeout(self.left(), moving).await.map_err(|_| GitError::TooSlow)?;
        self.waited += asked.elapsed();
        Ok(moved)
    }

    /// How long it may take for what comes next.
    fn left(&self) -> Duration {
        self.allowed().saturating_sub(self.waited).min(self.pause)
    }

    fn allowed(&self) -> Duration {
        match self.bytes.saturating_mul(1000).checked_div(self.min_rate) {
            Some(earned) => self.pause.saturating_add(Duration::from_millis(earned)),
            None => Duration::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE_TIMEOUT: Duration = Duration::from_millis(300);

    /// How often a client may move `bytes`, each time after `pause`; up to a thousand times.
    fn drip(min_rate: u64, bytes: usize, pause: u64) -> usize {
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
    fn a_client_that_pauses_or_drips_is_given_up() {
        assert_eq!(drip(1000, 1 << 20, 301), 0);
        assert_eq!(drip(1000, 1, 50), 6);
        assert_eq!(drip(1000, 64, 50), 1000);
        assert_eq!((drip(0, 1, 50), drip(0, 1, 301)), (1000, 0));
    }

    #[test]
    fn patience_comes_back() {
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
    async fn nobody_is_waited_for_in_vain() {
        let mut throughput = MinThroughput::new(Duration::from_millis(10), 1);
        throughput.wait(std::future::ready(())).await.unwrap();
        assert!(matches!(throughput.wait(std::future::pending::<()>()).await, Err(GitError::TooSlow)));
    }
}
