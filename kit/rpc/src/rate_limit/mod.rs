//! Counts of events per key and time window, such as wrong passwords or requests of one address.
//!
//! Not here: limits, but for those of an account and an hour. The caller compares the count with its own.

mod hourly;
mod limiter;
mod memory;

#[cfg(test)]
mod tests;

pub use hourly::{HourlyLimit, RateExceeded};
pub use limiter::RateLimiter;
