//! [`HourlyLimit`]: a limit on what one account does within an hour.
//!
//! Not here: the percentage that applies to an account, which repo-svc knows and tells in grants.

use std::time::Duration;

use super::limiter::RateLimiter;

/// Events are counted in windows of this length.
const WINDOW: Duration = Duration::from_secs(60 * 60);

/// Limits what one account does within an hour.
#[derive(Clone, Debug)]
pub struct HourlyLimit {
    limiter: RateLimiter,
    name: &'static str,
    limit: u32,
}

/// An account has reached its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateExceeded {
    /// The limit that applies to the account.
    pub limit: u32,
    /// Time to wait before the next attempt.
    pub retry_after: Duration,
}

impl HourlyLimit {
    /// Returns a limit that counts in `limiter`, which replicas may share, under `name`; 0 for no limit. The name is the kind in the metric
    /// `ferrite_quota_refused_total` as well.
    #[must_use]
    pub fn new(limiter: RateLimiter, name: &'static str, limit: u32) -> Self {
        Self { limiter, name, limit }
    }

    /// Counts `amount` of what is limited for an account. `percent` of the limit applies to it: `None` for 100, [`u32::MAX`] for no limit.
    /// Called after the request was found valid and before anything is written.
    ///
    /// # Errors
    /// [`RateExceeded`] when the account has reached its limit.
    pub async fn count(&self, user: i64, amount: u32, percent: Option<u32>) -> Result<(), RateExceeded> {
        let Some(limit) = self.of(percent) else { return Ok(()) };
        let key = format!("{}\0{user}", self.name);
        if limit > 0 && self.limiter.add(&key, amount, WINDOW).await <= limit {
            return Ok(());
        }
        metrics::counter!("ferrite_quota_refused_total", "kind" => self.name).increment(1);
        let (_, left) = self.limiter.peek(&key, WINDOW).await;
        Err(RateExceeded { limit, retry_after: left.max(Duration::from_secs(1)) })
    }

    /// Returns the limit of an account; `None` if it has none.
    fn of(&self, percent: Option<u32>) -> Option<u32> {
        match percent {
            _ if self.limit == 0 || percent == Some(u32::MAX) => None,
            None => Some(self.limit),
            Some(percent) => {
                let limit = u64::from(self.limit) * u64::from(percent) / 100;
                Some(u32::try_from(limit).unwrap_or(u32::MAX))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;

    fn limit(limit: u32) -> (HourlyLimit, Clock) {
        let clock = Clock::fixed(1_000_000);
        (HourlyLimit::new(RateLimiter::new(None, clock.clone()), "things", limit), clock)
    }

    #[tokio::test]
    async fn an_account_that_reached_its_limit_waits_for_the_end_of_the_hour_and_others_do_not() {
        let (limit, clock) = limit(3);
        for _ in 0..3 {
            assert_eq!(limit.count(1, 1, None).await, Ok(()));
        }
        clock.advance(Duration::from_secs(600));
        let refused = RateExceeded { limit: 3, retry_after: Duration::from_secs(3_000) };
        assert_eq!(limit.count(1, 1, None).await, Err(refused));
        assert_eq!(limit.count(2, 3, None).await, Ok(()));
        assert!(limit.count(2, 1, None).await.is_err(), "an amount counts as so many");
        clock.advance(Duration::from_secs(3_000));
        assert_eq!(limit.count(1, 1, None).await, Ok(()));
    }

    #[tokio::test]
    async fn a_percentage_of_the_limit_applies() {
        let (limit, _) = limit(10);
        for (percent, most) in [(Some(50), 5), (Some(200), 20), (Some(100), 10), (Some(5), 0), (Some(0), 0)] {
            assert_eq!(limit.of(percent), Some(most), "{percent:?}");
        }
        assert!(limit.count(1, 1, Some(0)).await.is_err());
        for number in 0..50 {
            assert_eq!(limit.count(2, 1, Some(u32::MAX)).await, Ok(()), "{number}");
        }
        assert_eq!(limit.count(2, 1, None).await, Ok(()), "what has no limit is not counted");
    }

    #[tokio::test]
    async fn zero_is_no_limit() {
        let (limit, _) = limit(0);
        for _ in 0..50 {
            assert_eq!(limit.count(1, u32::MAX, Some(0)).await, Ok(()));
        }
    }
}
