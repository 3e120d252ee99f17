//! What the processes of an installation remember together: the one place that talks to Redis.
//!
//! Nothing in it is the truth, and nobody waits for it: a Redis that does not answer is left alone for a moment, and its users do
//! without.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use redis::aio::{ConnectionManager, ConnectionManagerConfig};

use crate::{Clock, Secret};

/// A Redis that does not answer in this time is asked nothing more for a moment.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_millis(250);
const BREAK: Duration = Duration::from_millis(500);

/// A Redis. Clones share its connection, and what is known of its health.
#[derive(Clone)]
pub struct Shared {
    redis: ConnectionManager,
    clock: Clock,
    broken_until_us: Arc<AtomicI64>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl Shared {
    /// The Redis at `url` (`redis://…`). Connects when first used.
    ///
    /// # Errors
    /// When the URL is malformed.
    pub fn new(url: &Secret, clock: Clock) -> Result<Self, redis::RedisError> {
        let config = ConnectionManagerConfig::new()
            .set_connection_timeout(Some(ANSWER_TIMEOUT))
            .set_response_timeout(Some(ANSWER_TIMEOUT))
            .set_number_of_retries(1)
            .set_min_delay(Duration::from_millis(20))
            .set_max_delay(Duration::from_millis(100));
        let redis = redis::Client::open(url.expose())?.get_connection_manager_lazy(config)?;
        Ok(Self { redis, clock, broken_until_us: Arc::default() })
    }

    /// The answer to a command, unless there is none in time.
    pub(crate) async fn ask<T: redis::FromRedisValue>(&self, command: &redis::Cmd) -> Option<T> {
        let mut redis = self.redis.clone();
        self.unless_broken(command.query_async::<T>(&mut redis)).await
    }

    /// The answer to several commands, unless there is none in time.
    pub(crate) async fn ask_all<T: redis::FromRedisValue>(&self, commands: &redis::Pipeline) -> Option<T> {
        let mut redis = self.redis.clone();
        self.unless_broken(commands.query_async::<T>(&mut redis)).await
    }

    /// Whether several commands were done, tried even when the last ones were not.
    pub(crate) async fn insist(&self, commands: &redis::Pipeline) -> bool {
        let mut redis = self.redis.clone();
        let attempt = tokio::time::timeout(ANSWER_TIMEOUT, commands.query_async::<()>(&mut redis)).await;
        matches!(attempt, Ok(Ok(())))
    }

    async fn unless_broken<T>(&self, answer: impl Future<Output = redis::RedisResult<T>>) -> Option<T> {
        if self.clock.now_us() < self.broken_until_us.load(Ordering::Relaxed) {
            return None;
        }
        match tokio::time::timeout(ANSWER_TIMEOUT, answer).await {
            Ok(Ok(value)) => Some(value),
            outcome => {
                let until = self.clock.now_us() + i64::try_from(BREAK.as_micros()).unwrap_or(i64::MAX);
                self.broken_until_us.store(until, Ordering::Relaxed);
                metrics::counter!("ferrite_redis_failures_total").increment(1);
                let error = outcome.err().map_or_else(|| "command failed".to_owned(), |late| late.to_string());
                tracing::warn!(error, "Redis does not answer; doing without it");
                None
            }
        }
    }
}

/// Whole milliseconds, as Redis takes them.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
