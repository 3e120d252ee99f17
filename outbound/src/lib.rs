//! The HTTP client for URLs that users give: targets of webhooks, sources of imports and mirrors.
//!
//! A URL is checked twice. [`OutboundUrl::parse`] checks its text when it is stored: two parsers must read the same host from it, and
//! an address in it must be permitted. [`Client::send`] checks the addresses at every use: the name is resolved once, one forbidden
//! address refuses the request, and the connection goes to a checked address, so a name that changes in between reaches nothing.
//! [`Policy`] says which addresses are permitted: public ones, and those that the operator lists.
//!
//! The client follows no redirect, asks no proxy, keeps no cookie and no connection, and decompresses nothing. One deadline covers all
//! of a request; head and body of the response are bounded.
//!
//! It stands on hyper. reqwest 0.13 cannot keep these promises: it sends `/a/../b` as `/b`, adds an `Accept` header, bounds no bytes of
//! a head, and asks its resolver without the port, which entries of the [`AllowList`] have.
//!
//! Order of the modules, upper to lower: `client`, `exchange`, `connect`, `tls`, `resolve`, `request`, `error`, `url`, `policy`,
//! `allow`, `address`, `host`.
//!
//! Not here: retries, signatures and the log of deliveries (hook-svc), git processes (git-svc).

#![warn(missing_docs, clippy::missing_errors_doc)]

mod address;
mod allow;
mod client;
mod connect;
mod error;
mod exchange;
mod host;
mod policy;
mod request;
mod resolve;
#[cfg(test)]
mod tests;
mod tls;
mod url;

pub use address::{AddressClass, special_networks};
pub use allow::{AllowList, AllowListError};
pub use client::Client;
pub use error::{SendError, TlsFault};
pub use exchange::{BodyEnd, Response};
pub use host::Host;
pub use policy::{OutboundArgs, Policy};
pub use request::{HeaderRefusal, Headers, Limits, Request};
pub use resolve::Resolve;
pub use url::{OutboundUrl, Scheme, UrlRefusal};
