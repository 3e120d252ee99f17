//! Admission of requests: how many processes run at once, and the least throughput that a client must keep up.

pub(crate) mod idle_timer;
pub(crate) mod limiter;
pub(crate) mod throughput;
pub(crate) mod yielding_permit;
