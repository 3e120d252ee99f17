//! Tests of calls, and of who makes them, over real servers.

mod auth;
mod grpc;
