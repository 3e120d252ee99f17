//! The only module that opens connections to Redis.
//!
//! Redis holds caches and counters only, never the sole copy of a fact. A call times out after 250 ms; then a circuit breaker skips Redis
//! for 500 ms, and the caller does without it.

mod client;
mod counters;
mod server;

pub use client::RedisClient;
pub(crate) use client::{RESPONSE_TIMEOUT, millis};
pub(crate) use counters::{KeyHash, RedisCounters};
pub use server::{BadRedisServer, RedisServer};
