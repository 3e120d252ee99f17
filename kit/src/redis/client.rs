//! The Redis client with its circuit breaker.
//!
//! Not here: names and types of keys, which belong to the users of the client.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use redis::aio::{ConnectionManager, ConnectionManagerConfig};

use crate::clock::Clock;
use crate::secret::Secret;

/// Longest time to connect to Redis, and to wait for a response.
pub(crate) const RESPONSE_TIMEOUT: Duration = Duration::from_millis(250);
/// Time for which the circuit breaker stays open after a failed call.
const CIRCUIT_OPEN_TIME: Duration = Duration::from_millis(500);

/// A client of one Redis server. Clones share its connection and its circuit breaker.
#[derive(Clone)]
pub struct RedisClient {
    connection: ConnectionManager,
    clock: Clock,
    circuit_open_until_us: Arc<AtomicI64>,
}

impl std::fmt::Debug for RedisClient {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("RedisClient").finish_non_exhaustive()
    }
}

impl RedisClient {
    /// Returns a client of the Redis at `url` (`redis://…`), which connects when it is first used.
    ///
    /// # Errors
    /// When the URL is malformed.
    pub fn new(url: &Secret, clock: Clock) -> Result<Self, redis::RedisError> {
        let config = ConnectionManagerConfig::new()
            .set_connection_timeout(Some(RESPONSE_TIMEOUT))
            .set_response_timeout(Some(RESPONSE_TIMEOUT))
            .set_number_of_retries(1)
            .set_min_delay(Duration::from_millis(20))
            .set_max_delay(Duration::from_millis(100));
        let connection = redis::Client::open(url.expose())?.get_connection_manager_lazy(config)?;
        Ok(Self { connection, clock, circuit_open_until_us: Arc::default() })
    }

    /// Runs `command` and returns its response; `None` if Redis does not respond in time or the circuit breaker is open.
    pub(crate) async fn query<T: redis::FromRedisValue>(&self, command: &redis::Cmd) -> Option<T> {
        let mut connection = self.connection.clone();
        self.with_circuit_breaker(command.query_async::<T>(&mut connection)).await
    }

    /// Runs several commands, as [`RedisClient::query`] runs one.
    pub(crate) async fn query_pipeline<T: redis::FromRedisValue>(&self, commands: &redis::Pipeline) -> Option<T> {
        let mut connection = self.connection.clone();
        self.with_circuit_breaker(commands.query_async::<T>(&mut connection)).await
    }

    /// Runs several commands even if the circuit breaker is open. Returns whether Redis confirmed them in time.
    pub(crate) fn execute_bypassing_breaker<'a>(&self, commands: &'a redis::Pipeline) -> BoxFuture<'a, bool> {
        let mut connection = self.connection.clone();
        Box::pin(async move {
            let attempt = tokio::time::timeout(RESPONSE_TIMEOUT, commands.query_async::<()>(&mut connection)).await;
            matches!(attempt, Ok(Ok(())))
        })
    }

    async fn with_circuit_breaker<T>(&self, response: impl Future<Output = redis::RedisResult<T>>) -> Option<T> {
        if self.clock.now_us() < self.circuit_open_until_us.load(Ordering::Relaxed) {
            return None;
        }
        match tokio::time::timeout(RESPONSE_TIMEOUT, response).await {
            Ok(Ok(value)) => Some(value),
            outcome => {
                let until = self.clock.now_us() + i64::try_from(CIRCUIT_OPEN_TIME.as_micros()).unwrap_or(i64::MAX);
                self.circuit_open_until_us.store(until, Ordering::Relaxed);
                metrics::counter!("ferrite_redis_failures_total").increment(1);
                let error = outcome.err().map_or_else(|| "command failed".to_owned(), |late| late.to_string());
                tracing::warn!(error, "Redis does not answer; doing without it");
                None
            }
        }
    }
}

/// Returns `duration` in whole milliseconds, the unit of Redis's `PX`.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
