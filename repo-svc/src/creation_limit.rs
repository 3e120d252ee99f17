//! Limits how much an account can create per hour, and scales hourly limits for single accounts.

use ferrite_proto::id::UserId;
use ferrite_proto::repo::Identity;
use ferrite_rpc::rate_limit::{HourlyLimit, RateExceeded, RateLimiter};

use crate::config::CreationArgs;
use crate::error::RepoError;
use crate::store::{QuotaRow, QuotaTable};

/// Percentage of the hourly limits that site administrators have, except for creations.
const ADMINISTRATOR_PERCENT: u32 = 10_000;

#[derive(Debug)]
pub(crate) struct CreationLimit {
    users: HourlyLimit,
    administrators: HourlyLimit,
    quotas: QuotaTable,
}

impl CreationLimit {
    pub(crate) fn new(limiter: RateLimiter, limits: &CreationArgs, quotas: QuotaTable) -> Self {
        let CreationArgs { creations_per_hour, administrator_creations_per_hour } = *limits;
        Self {
            users: HourlyLimit::new(limiter.clone(), "creations", creations_per_hour),
            administrators: HourlyLimit::new(limiter, "creations", administrator_creations_per_hour),
            quotas,
        }
    }

    /// Counts one creation by `caller`. Call it after validation and before any write.
    pub(crate) async fn count(&self, caller: &Identity) -> Result<(), RepoError> {
        let own = self.quotas.find(UserId(caller.user_id)).await?.rate_percent;
        let limit = if caller.is_admin { &self.administrators } else { &self.users };
        let counted = limit.count(caller.user_id, 1, own.map(|own| percent(own, 1))).await;
        counted.map_err(|RateExceeded { limit, retry_after, .. }| RepoError::TooManyCreations { limit, retry_after })
    }

    /// Returns the account's percentage of the hourly limits, except for creations; `None` for 100.
    pub(crate) async fn rate_percent(&self, account: UserId, is_admin: bool) -> Result<Option<u32>, RepoError> {
        Ok(Self::percent_of(is_admin, self.quotas.find(account).await?))
    }

    /// Like [`CreationLimit::rate_percent`], for a known quota.
    pub(crate) fn percent_of(is_admin: bool, quota: QuotaRow) -> Option<u32> {
        match (quota.rate_percent, is_admin) {
            (None, false) => None,
            (None, true) => Some(ADMINISTRATOR_PERCENT),
            (Some(own), false) => Some(percent(own, 1)),
            (Some(own), true) => Some(percent(own, ADMINISTRATOR_PERCENT / 100)),
        }
    }
}

/// Multiplies an account's percentage by `times`. A negative percentage means no limit:
/// [`u32::MAX`].
fn percent(own: i64, times: u32) -> u32 {
    u32::try_from(own).map_or(u32::MAX, |own| own.saturating_mul(times).min(u32::MAX - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_negative_percentage_is_no_limit() {
        for (own, times, expected) in [(-1, 1, u32::MAX), (0, 100, 0), (50, 1, 50), (50, 100, 5_000)] {
            assert_eq!(percent(own, times), expected, "{own}");
        }
        assert_eq!(percent(i64::from(u32::MAX), 100), u32::MAX - 1, "a very large percentage is a limit still");
    }
}
