//! Limits on concurrent work per store, repository and client, and the minimum throughput of a
//! client.

pub(crate) mod backlog;
pub(crate) mod limiter;
pub(crate) mod memory_budget;
pub(crate) mod throughput;
pub(crate) mod yielding_permit;
