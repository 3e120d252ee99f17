//! The only module that connects to Redis.
//!
//! Redis holds only caches and counters, never the sole copy of a fact. A call times out after 250
//! ms. Then a circuit breaker skips Redis for 500 ms, and callers do without it.

mod client;
mod counters;
mod server;

pub use client::RedisClient;
pub(crate) use client::{RESPONSE_TIMEOUT, millis};
pub(crate) use counters::{KeyHash, RedisCounters};
pub use server::{BadRedisServer, RedisServer};
