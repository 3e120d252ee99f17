//! The RPCs of hook-svc, one noun per file.
//!
//! Not here: SQL, and the rules of URLs, types and events.

mod audit;
mod authorize;
mod deliver;
mod deliveries;
mod feed;
mod hooks;
mod service;
mod split;

pub(crate) use audit::SUBSCRIBER;
pub(crate) use deliver::Intake;
pub(crate) use feed::FeedRpc;
pub(crate) use service::HookRpc;
