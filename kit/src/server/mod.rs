//! The servers of a process: HTTP/1.1 and HTTP/2 on one port, gRPC on top of it, and the private listener for probes and metrics.
//!
//! Not here: routes and RPCs of a service.

mod admin;
mod grpc;
mod serve;
mod timeout_stream;

pub use admin::{serve_admin, watch_readiness};
pub use grpc::{GrpcServer, MAX_MESSAGE_BYTES};
pub use serve::{ListenerLimits, Peer, serve, serve_all};
