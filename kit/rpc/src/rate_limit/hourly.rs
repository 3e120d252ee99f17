//! [`HourlyLimit`]: a limit per account and hour.

use std::fmt::Display;
use std::time::Duration;

use super::limiter::RateLimiter;

const WINDOW: Duration = Duration::from_secs(60 * 60);

/// Limits what one account does per hour.
#[derive(Clone, Debug)]
pub struct HourlyLimit {
    limiter: RateLimiter,
    name: &'static str,
    limit: u64,
}

/// An account has reached its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateExceeded {
    /// The name of the limit.
    pub name: &'static str,
    /// The limit that applies to the account.
    pub limit: u64,
    /// Time to wait before a retry.
    pub retry_after: Duration,
}

impl HourlyLimit {
    /// Returns a limit that counts in `limiter`, which replicas may share; 0 means no limit. `name`
    /// is also the kind in the metric `ferrite_quota_refused_total`.
    #[must_use]
    pub fn new(limiter: RateLimiter, name: &'static str, limit: impl Into<u64>) -> Self {
        Self { limiter, name, limit: limit.into() }
    }

    /// Counts `amount` for an account. `percent` of the limit applies to it: `None` for 100,
    /// [`u32::MAX`] for no limit. Call this after the request was validated and before anything is
    /// written.
    ///
    /// # Errors
    /// [`RateExceeded`] if the account has reached its limit.
    pub async fn count(&self, account: impl Display, amount: u64, percent: Option<u32>) -> Result<(), RateExceeded> {
        Self::count_all([(self, amount)], account, percent).await
    }

    /// Counts against several limits that share a limiter. If one amount does not fit, none is
    /// counted, except when concurrent requests take the room.
    ///
    /// # Errors
    /// [`RateExceeded`] for the first limit that would be exceeded.
    pub async fn count_all<const N: usize>(
        amounts: [(&Self, u64); N],
        account: impl Display,
        percent: Option<u32>,
    ) -> Result<(), RateExceeded> {
        // A single event needs no check first: if it is refused, the limit is already used up.
        if amounts.iter().any(|(_, amount)| *amount > 1) {
            Self::check(&amounts, &account, percent).await?;
        }
        Self::add_all(amounts, account, percent).await
    }

    /// Counts against several limits that share a limiter, in one round trip to Redis.
    ///
    /// # Errors
    /// [`RateExceeded`] for the first limit that is reached. All amounts are counted anyway.
    pub async fn add_all<const N: usize>(
        amounts: [(&Self, u64); N],
        account: impl Display,
        percent: Option<u32>,
    ) -> Result<(), RateExceeded> {
        let Some((first, _)) = amounts.first() else { return Ok(()) };
        if amounts.iter().all(|(limit, _)| limit.limit_of(percent).is_none()) {
            return Ok(());
        }
        let keys = amounts.map(|(limit, _)| limit.key(&account));
        let counted = std::array::from_fn(|place| (keys[place].as_str(), amounts[place].1));
        let counts: [u64; N] = first.limiter.add(counted, WINDOW).await;
        for ((limit, _), count) in amounts.iter().zip(counts) {
            if let Some(most) = limit.limit_of(percent)
                && (most == 0 || count > most)
            {
                let (_, left) = limit.limiter.peek(&limit.key(&account), WINDOW).await;
                return Err(limit.exceeded(most, left));
            }
        }
        Ok(())
    }

    /// Checks that each amount fits into its limit. Counts nothing.
    async fn check(amounts: &[(&Self, u64)], account: &impl Display, percent: Option<u32>) -> Result<(), RateExceeded> {
        for (limit, amount) in amounts {
            let Some(most) = limit.limit_of(percent) else { continue };
            let (count, left) = limit.limiter.peek(&limit.key(account), WINDOW).await;
            if count.saturating_add(*amount) > most {
                // Without a window the amount exceeds the limit, and waiting does not help.
                return Err(limit.exceeded(most, if left.is_zero() { WINDOW } else { left }));
            }
        }
        Ok(())
    }

    /// Counts an amount without checking the limit and without waiting: for amounts that are only
    /// known afterwards.
    pub fn add_later(&self, account: impl Display, amount: u64, percent: Option<u32>) {
        if self.limit_of(percent).is_some() {
            self.limiter.add_later(&self.key(&account), amount, WINDOW);
        }
    }

    fn exceeded(&self, limit: u64, left: Duration) -> RateExceeded {
        metrics::counter!("ferrite_quota_refused_total", "kind" => self.name).increment(1);
        RateExceeded { name: self.name, limit, retry_after: left.max(Duration::from_secs(1)) }
    }

    fn key(&self, account: &impl Display) -> String {
        format!("{}\0{account}", self.name)
    }

    /// Returns the limit of an account that `percent` applies to; `None` for no limit.
    #[must_use]
    pub fn limit_of(&self, percent: Option<u32>) -> Option<u64> {
        match percent {
            _ if self.limit == 0 || percent == Some(u32::MAX) => None,
            None => Some(self.limit),
            Some(percent) => {
                Some(u64::try_from(u128::from(self.limit) * u128::from(percent) / 100).unwrap_or(u64::MAX))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ferrite_core::Clock;

    use super::*;
    use crate::redis::RedisServer;
    use crate::testing::Redis;

    fn limit(limit: u64) -> (HourlyLimit, Clock) {
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
        let refused = RateExceeded { name: "things", limit: 3, retry_after: Duration::from_secs(3_000) };
        assert_eq!(limit.count(1, 1, None).await, Err(refused));
        assert_eq!(limit.count(2, 3, None).await, Ok(()));
        assert!(limit.count(2, 1, None).await.is_err(), "every unit of an amount counts");
        clock.advance(Duration::from_secs(3_000));
        assert_eq!(limit.count(1, 1, None).await, Ok(()));
    }

    #[tokio::test]
    async fn a_percentage_of_the_limit_applies() {
        let (limit, _) = limit(10);
        for (percent, most) in [(Some(50), 5), (Some(200), 20), (Some(100), 10), (Some(5), 0), (Some(0), 0)] {
            assert_eq!(limit.limit_of(percent), Some(most), "{percent:?}");
        }
        assert!(limit.count(1, 1, Some(0)).await.is_err());
        for number in 0..50 {
            assert_eq!(limit.count(2, 1, Some(u32::MAX)).await, Ok(()), "{number}");
        }
        assert_eq!(limit.count(2, 1, None).await, Ok(()), "what has no limit is not counted");
    }

    #[tokio::test]
    async fn several_limits_are_counted_at_once() {
        let clock = Clock::fixed(1_000_000);
        let limiter = RateLimiter::new(None, clock);
        let [few, many, none] = [("few", 2_u64), ("many", 1_000), ("none", 0)]
            .map(|(name, limit)| HourlyLimit::new(limiter.clone(), name, limit));
        let count = async |amount| HourlyLimit::count_all([(&few, 1), (&many, amount), (&none, 9)], 7, None).await;
        assert_eq!(count(600).await, Ok(()));
        assert_eq!(count(600).await.unwrap_err().name, "many");
        assert_eq!(count(1).await, Ok(()), "what was refused counts against no limit");
        assert_eq!(count(1).await.unwrap_err().name, "few");
        many.add_later(8, 1_001, None);
        assert_eq!(many.count(8, 1, Some(10_000)).await, Ok(()), "a percentage is applied to large limits as well");
        assert!(many.count(8, 1, None).await.is_err());
    }

    #[tokio::test]
    async fn an_amount_that_does_not_fit_is_not_counted_in_memory_or_in_redis() {
        let redis = Redis::start().await;
        let client =
            redis.as_ref().map(|redis| RedisServer::new(&redis.url(), None).unwrap().client(Clock::system()).unwrap());
        for limiter in [
            Some(RateLimiter::new(None, Clock::system())),
            client.map(|client| RateLimiter::new(Some(client), Clock::system())),
        ] {
            let Some(limiter) = limiter else { continue };
            let limit = HourlyLimit::new(limiter, "things", 6_u64);
            let refused = limit.count(1, 7, None).await.unwrap_err();
            assert_eq!((refused.limit, refused.retry_after), (6, WINDOW), "more than the limit never fits");
            assert_eq!(limit.count(1, 1, None).await, Ok(()));
            let refused = limit.count(1, 6, None).await.unwrap_err();
            assert!(refused.retry_after <= WINDOW && refused.retry_after > WINDOW / 2, "{refused:?}");
            assert_eq!(limit.count(1, 5, None).await, Ok(()));
            assert!(limit.count(1, 1, None).await.is_err());
        }
    }

    #[tokio::test]
    async fn zero_is_no_limit() {
        let (limit, _) = limit(0);
        for _ in 0..50 {
            assert_eq!(limit.count(1, u64::MAX, Some(0)).await, Ok(()));
        }
    }
}
