//! Counts events per key and time window, such as wrong passwords or requests of one address.
//! Except for [`HourlyLimit`], callers compare the count with their own limit.

mod hourly;
mod limiter;
mod memory;

#[cfg(test)]
mod tests;

pub use hourly::{HourlyLimit, RateExceeded};
pub use limiter::RateLimiter;
