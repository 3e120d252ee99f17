//! The HTTP client for URLs from users: webhook targets, and sources of imports and mirrors.
//!
//! A URL is checked twice. When it is stored, [`OutboundUrl::parse`] requires that two parsers read
//! the same host from it, and that an address in it is permitted. On every use, [`Client::send`]
//! resolves the name once, refuses the request if any address is forbidden, and connects to a
//! checked address, so changing the name's addresses in between does not help. [`Policy`] permits
//! public addresses, and those that the operator lists.
//!
//! The client follows no redirects, uses no proxy, keeps no cookies or connections, and does not
//! decompress. One deadline covers the whole request; the response's head and body are limited.
//!
//! It uses hyper. reqwest 0.13 cannot guarantee this: it sends `/a/../b` as `/b`, adds an `Accept`
//! header, does not limit a head's bytes, and calls its resolver without the port, which
//! [`AllowList`] entries need.

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
