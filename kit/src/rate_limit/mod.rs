//! Counts of events per key and time window, such as wrong passwords or requests of one address.
//!
//! Not here: limits. The caller compares the count with its own.

mod limiter;
mod memory;

#[cfg(test)]
mod tests;

pub use limiter::RateLimiter;
