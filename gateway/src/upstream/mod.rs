//! The services behind the gateway: gRPC clients, and the HTTP client of git-svc.

pub(crate) mod client_headers;
pub(crate) mod clients;
pub(crate) mod git_client;
pub(crate) mod grant;
pub(crate) mod reauthorize;
