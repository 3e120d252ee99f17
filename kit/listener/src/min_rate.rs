//! The minimum average rate at which a client must take what waits for it.

use std::time::Duration;

use tokio::time::Instant;

/// Measures the pauses of a client. A pause counts in full, and each taken byte pays back the time
/// that it may take at the minimum rate. The client is too slow when its unpaid pauses exceed
/// `max_pause`.
#[derive(Debug)]
pub(super) struct MinRate {
    max_pause: Duration,
    /// Minimum average rate; with 0 only single pauses count.
    min_bytes_per_second: u32,
    /// Pauses that are not paid back yet.
    unpaid: Duration,
    /// Start of the current pause; `None` while the client takes everything.
    paused_at: Option<Instant>,
}

impl MinRate {
    pub(super) fn new(max_pause: Duration, min_bytes_per_second: u32) -> Self {
        Self { max_pause, min_bytes_per_second, unpaid: Duration::ZERO, paused_at: None }
    }

    /// Begins a pause at `now`, unless there is one. Returns when the client will be too slow.
    pub(super) fn pause(&mut self, now: Instant) -> Instant {
        let paused_at = *self.paused_at.get_or_insert(now);
        paused_at + self.max_pause.saturating_sub(self.unpaid)
    }

    /// Ends the pause at `now`, if any: the client has taken `bytes`.
    pub(super) fn resume(&mut self, now: Instant, bytes: usize) {
        if let Some(paused_at) = self.paused_at.take() {
            self.unpaid += now.saturating_duration_since(paused_at);
        }
        if self.unpaid.is_zero() {
            return;
        }
        let paid = match u64::from(self.min_bytes_per_second) {
            0 => Duration::MAX,
            rate => Duration::from_millis((bytes as u64).saturating_mul(1000) / rate),
        };
        self.unpaid = self.unpaid.saturating_sub(paid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX_PAUSE: Duration = Duration::from_secs(30);

    /// Returns the seconds after which a client that takes `bytes` every `interval` is too slow;
    /// `None` if it is not within an hour.
    fn seconds_until_too_slow(rate: u32, bytes: usize, interval: Duration) -> Option<u64> {
        let begin = Instant::now();
        let (mut min_rate, mut now) = (MinRate::new(MAX_PAUSE, rate), begin);
        while now < begin + Duration::from_secs(3600) {
            let due = min_rate.pause(now);
            if due <= now + interval {
                return Some((due - begin).as_secs());
            }
            now += interval;
            min_rate.resume(now, bytes);
        }
        None
    }

    #[test]
    fn a_client_is_too_slow_below_the_rate_and_after_the_pause() {
        let second = Duration::from_secs(1);
        assert_eq!(seconds_until_too_slow(1024, 0, second), Some(30));
        assert_eq!(seconds_until_too_slow(1024, 512, second), Some(59));
        assert_eq!(seconds_until_too_slow(1024, 1024, second), None);
        assert_eq!(seconds_until_too_slow(1024, 20 * 1024, second * 20), None);
    }

    #[test]
    fn much_that_was_taken_does_not_pay_for_a_long_pause() {
        let (mut min_rate, now) = (MinRate::new(MAX_PAUSE, 1024), Instant::now());
        min_rate.pause(now);
        let later = now + MAX_PAUSE / 2;
        min_rate.resume(later, 1 << 30);
        assert_eq!(min_rate.pause(later), later + MAX_PAUSE);
    }

    #[test]
    fn without_a_rate_only_a_single_pause_counts() {
        assert_eq!(seconds_until_too_slow(0, 1, MAX_PAUSE - Duration::from_secs(1)), None);
        assert_eq!(seconds_until_too_slow(0, 1, MAX_PAUSE), Some(30));
    }
}
