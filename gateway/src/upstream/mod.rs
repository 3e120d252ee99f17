//! The services behind the gateway: gRPC clients, and git-svc's HTTP bodies.

pub(crate) mod capabilities;
pub(crate) mod clients;
pub(crate) mod git_client;
pub(crate) mod reauthorize;
