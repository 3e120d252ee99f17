//! Calls between the processes of an installation and their authentication: keys of roles, tokens
//! and grants, the gRPC channel, Redis, and rate limits.

#![warn(missing_docs, clippy::missing_errors_doc)]

pub mod auth;
pub mod grpc;
pub mod rate_limit;
pub mod redis;
pub mod service_key;
#[cfg(any(test, feature = "testing"))]
#[expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]
pub mod testing;
pub mod version;
pub mod write_limit;
