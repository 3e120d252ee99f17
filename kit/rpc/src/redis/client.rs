//! The Redis client with its circuit breaker.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use ferrite_core::telemetry;
use ferrite_core::{Clock, micros};
use futures_util::future::BoxFuture;
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use tracing::{Instrument, Span};

pub(crate) const RESPONSE_TIMEOUT: Duration = Duration::from_millis(250);
/// How long the circuit breaker stays open after a failed call.
const CIRCUIT_OPEN_TIME: Duration = Duration::from_millis(500);
/// Minimum interval between log entries about failed calls.
const WARNING_INTERVAL: Duration = Duration::from_secs(30);

/// A client of one Redis server. Clones share its connection and circuit breaker.
#[derive(Clone)]
pub struct RedisClient {
    connection: ConnectionManager,
    clock: Clock,
    circuit_open_until_us: Arc<AtomicI64>,
    silent_until_us: Arc<AtomicI64>,
}

impl RedisClient {
    /// Returns a client that connects on first use. Fails if the address is malformed.
    pub(super) fn new(client: &redis::Client, clock: Clock) -> Result<Self, redis::RedisError> {
        let config = ConnectionManagerConfig::new()
            .set_connection_timeout(Some(RESPONSE_TIMEOUT))
            .set_response_timeout(Some(RESPONSE_TIMEOUT))
            .set_number_of_retries(1)
            .set_min_delay(Duration::from_millis(20))
            .set_max_delay(Duration::from_millis(100));
        let connection = client.get_connection_manager_lazy(config)?;
        Ok(Self { connection, clock, circuit_open_until_us: Arc::default(), silent_until_us: Arc::default() })
    }

    /// Runs `command`. Returns `None` if Redis does not respond in time or the circuit breaker is
    /// open.
    pub(crate) async fn query<T: redis::FromRedisValue>(&self, command: &redis::Cmd) -> Option<T> {
        let mut connection = self.connection.clone();
        let span = command_span(command.args_iter().next().as_ref());
        self.with_circuit_breaker(command.query_async::<T>(&mut connection)).instrument(span).await
    }

    /// Like [`RedisClient::query`], for several commands.
    pub(crate) async fn query_pipeline<T: redis::FromRedisValue>(&self, commands: &redis::Pipeline) -> Option<T> {
        let mut connection = self.connection.clone();
        self.with_circuit_breaker(commands.query_async::<T>(&mut connection)).instrument(pipeline_span()).await
    }

    /// Runs several commands even if the circuit breaker is open. Returns whether Redis confirmed
    /// them in time.
    pub(crate) fn execute_bypassing_breaker<'a>(&self, commands: &'a redis::Pipeline) -> BoxFuture<'a, bool> {
        let mut connection = self.connection.clone();
        Box::pin(async move {
            let attempt = measured(commands.query_async::<()>(&mut connection)).instrument(pipeline_span()).await;
            matches!(attempt, Ok(Ok(())))
        })
    }

    async fn with_circuit_breaker<T>(&self, response: impl Future<Output = redis::RedisResult<T>>) -> Option<T> {
        if self.clock.now_us() < self.circuit_open_until_us.load(Ordering::Relaxed) {
            metrics::counter!("ferrite_redis_commands_total", "result" => "skipped").increment(1);
            return None;
        }
        match measured(response).await {
            Ok(Ok(value)) => Some(value),
            Ok(Err(error)) => {
                self.open_circuit(&error);
                None
            }
            Err(late) => {
                self.open_circuit(&late);
                None
            }
        }
    }

    /// Opens the circuit breaker after a failed call. Logs at most one failure per
    /// [`WARNING_INTERVAL`].
    fn open_circuit(&self, error: &dyn std::error::Error) {
        let now_us = self.clock.now_us();
        let after = |time: Duration| now_us + micros(time);
        self.circuit_open_until_us.store(after(CIRCUIT_OPEN_TIME), Ordering::Relaxed);
        metrics::counter!("ferrite_redis_failures_total").increment(1);
        if now_us >= self.silent_until_us.load(Ordering::Relaxed) {
            self.silent_until_us.store(after(WARNING_INTERVAL), Ordering::Relaxed);
            tracing::warn!(%error, "cannot use Redis; continuing without it");
        }
    }
}

/// Waits for a response, up to the timeout, and records the duration.
async fn measured<T>(
    response: impl Future<Output = redis::RedisResult<T>>,
) -> Result<redis::RedisResult<T>, tokio::time::error::Elapsed> {
    let started = Instant::now();
    let outcome = tokio::time::timeout(RESPONSE_TIMEOUT, response).await;
    metrics::histogram!("ferrite_redis_command_duration_seconds").record(started.elapsed());
    match &outcome {
        Ok(Ok(_)) => metrics::counter!("ferrite_redis_commands_total", "result" => "ok").increment(1),
        _ => metrics::counter!("ferrite_redis_commands_total", "result" => "failed").increment(1),
    }
    outcome
}

/// Returns the span of the command `name`, without keys and values. Disabled unless the trace is
/// exported.
fn command_span(name: Option<&redis::Arg<&[u8]>>) -> Span {
    if !telemetry::is_sampled() {
        return Span::none();
    }
    let name = match name {
        Some(redis::Arg::Simple(name)) => String::from_utf8_lossy(name).into_owned(),
        _ => "command".to_owned(),
    };
    tracing::info_span!("redis", otel.name = name, otel.kind = "client", db.system.name = "redis")
}

fn pipeline_span() -> Span {
    if !telemetry::is_sampled() {
        return Span::none();
    }
    tracing::info_span!("redis", otel.name = "pipeline", otel.kind = "client", db.system.name = "redis")
}

/// Returns `duration` in whole milliseconds, the unit of Redis's `PX`.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
