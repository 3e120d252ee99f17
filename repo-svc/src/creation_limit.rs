//! The limit of what an account creates within an hour, and the percentage of such limits that applies to an account.

use ferrite_proto::id::UserId;
use ferrite_proto::repo::Identity;
use ferrite_rpc::rate_limit::{HourlyLimit, RateExceeded, RateLimiter};

use crate::config::CreationArgs;
use crate::error::RepoError;
use crate::store::{QuotaRow, QuotaTable};

/// Percentage of the limits per hour, those of creations apart, that administrators of the site have.
const ADMINISTRATOR_PERCENT: u32 = 10_000;

/// Limits how much one account may create within an hour.
#[derive(Debug)]
pub(crate) struct CreationLimit {
    users: HourlyLimit,
    administrators: HourlyLimit,
    quotas: QuotaTable,
}

impl CreationLimit {
    /// Creates a limit that counts in `limiter`, which replicas may share. `quotas` has the percentages of single accounts.
    pub(crate) fn new(limiter: RateLimiter, limits: &CreationArgs, quotas: QuotaTable) -> Self {
        let CreationArgs { creations_per_hour, administrator_creations_per_hour } = *limits;
        Self {
            users: HourlyLimit::new(limiter.clone(), "creations", creations_per_hour),
            administrators: HourlyLimit::new(limiter, "creations", administrator_creations_per_hour),
            quotas,
        }
    }

    /// Counts one creation by `caller`. Called after the request was found valid and before anything is written.
    ///
    /// # Errors
    /// [`RepoError::TooManyCreations`] with the time to wait, when the account has reached its limit; or those of the database.
    pub(crate) async fn count(&self, caller: &Identity) -> Result<(), RepoError> {
        let own = self.quotas.find(UserId(caller.user_id)).await?.rate_percent;
        let limit = if caller.is_admin { &self.administrators } else { &self.users };
        let counted = limit.count(caller.user_id, 1, own.map(|own| percent(own, 1))).await;
        counted.map_err(|RateExceeded { limit, retry_after, .. }| RepoError::TooManyCreations { limit, retry_after })
    }

    /// Returns the percentage of the limits per hour that applies to an account, those of creations apart; `None` for 100.
    ///
    /// # Errors
    /// Those of the database.
    pub(crate) async fn rate_percent(&self, account: UserId, is_admin: bool) -> Result<Option<u32>, RepoError> {
        Ok(Self::percent_of(is_admin, self.quotas.find(account).await?))
    }

    /// Returns the percentage as [`CreationLimit::rate_percent`], for an account whose quota is known.
    pub(crate) fn percent_of(is_admin: bool, quota: QuotaRow) -> Option<u32> {
        match (quota.rate_percent, is_admin) {
            (None, false) => None,
            (None, true) => Some(ADMINISTRATOR_PERCENT),
            (Some(own), false) => Some(percent(own, 1)),
            (Some(own), true) => Some(percent(own, ADMINISTRATOR_PERCENT / 100)),
        }
    }
}

/// Returns a percentage that is set for an account, `times` as large: [`u32::MAX`], which is no limit, for a negative one.
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
