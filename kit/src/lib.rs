//! What every Ferrite service is built on: configuration blocks, the database handle, lifecycle, telemetry, the gRPC server and
//! channel, authentication, and the outbox.
//!
//! Not here: anything that knows a table, a route or a rule of one service.

pub mod admin;
pub mod auth;
pub mod boot;
mod clock;
pub mod config;
pub mod db;
pub mod grpc;
pub mod idempotency;
mod lifecycle;
pub mod limit;
pub mod net;
pub mod outbox;
pub mod page;
mod secret;
pub mod serve;
pub mod shared;
pub mod telemetry;
#[cfg(any(test, feature = "testing"))]
#[expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]
pub mod testing;

pub use clock::{Clock, timestamp};
pub use lifecycle::Lifecycle;
pub use secret::Secret;
