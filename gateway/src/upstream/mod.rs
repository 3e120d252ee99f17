//! The services behind the gateway: gRPC clients, and git-svc's HTTP bodies. Uses no other room.
//!
//! Not here: operations, and the conversion of errors for clients.

pub(crate) mod client_headers;
pub(crate) mod clients;
pub(crate) mod git_client;
pub(crate) mod grant;
pub(crate) mod reauthorize;
