//! SQL and rows, one file per aggregate. No other module names tables.

pub(crate) mod activities;
pub(crate) mod attempts;
pub(crate) mod claims;
pub(crate) mod deliveries;
pub(crate) mod events;
pub(crate) mod eviction;
mod feed;
mod hooks;
pub(crate) mod kept_bytes;
pub(crate) mod outcomes;
pub(crate) mod purge;
pub(crate) mod queues;
pub(crate) mod redactions;
mod removal;
mod sealing;

pub(crate) use hooks::{HookTable, StoredHook};
