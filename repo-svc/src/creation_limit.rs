use std::time::Duration;

use ferrite_kit::rate_limit::RateLimiter;
use ferrite_proto::repo::Identity;

use crate::config::CreationArgs;
use crate::error::RepoError;

/// Creations are counted in windows of this length.
const WINDOW: Duration = Duration::from_secs(60 * 60);

/// Limits how much one account may create within an hour.
#[derive(Debug)]
pub(crate) struct CreationLimit {
    limiter: RateLimiter,
    limits: CreationArgs,
}

impl CreationLimit {
    /// Creates a limit that counts in `limiter`, which replicas may share.
    pub(crate) fn new(limiter: RateLimiter, limits: CreationArgs) -> Self {
        Self { limiter, limits }
    }

    /// Counts one creation by `caller`. Called after the request was found valid and before anything is written.
    ///
    /// # Errors
    /// [`RepoError::TooManyCreations`] with the time to wait, when the account has reached its limit.
    pub(crate) async fn count(&self, caller: &Identity) -> Result<(), RepoError> {
        let limits = &self.limits;
        let limit = if caller.is_admin { limits.administrator_creations_per_hour } else { limits.creations_per_hour };
        if limit == 0 {
            return Ok(());
        }
        let key = format!("creations\0{}", caller.user_id);
        if self.limiter.count(&key, WINDOW).await <= limit {
            return Ok(());
        }
        let (_, left) = self.limiter.peek(&key, WINDOW).await;
        Err(RepoError::TooManyCreations { retry_after: left.max(Duration::from_secs(1)) })
    }
}
