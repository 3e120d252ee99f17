//! Events between services: written in the transaction of the change, delivered in order per
//! repository, applied once.
//!
//! Every service that uses this crate has three tables (see `docs/events.md`): `outbox`, with one
//! row per event and subscriber, `outbox_lanes`, with one row per subscriber and repository with
//! waiting events, and `inbox`, with one row per applied event. Delivered rows are kept for a
//! while, for inspection and to detect repeated deliveries.

#![warn(missing_docs, clippy::missing_errors_doc)]

mod append;
mod commit;
mod delivery;
mod event;
mod flush;
mod handover;
mod lag;
mod purge;
mod relay;
mod round;
mod rows;
mod waiters;

#[cfg(any(test, feature = "testing"))]
#[expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]
pub mod testing;
#[cfg(test)]
mod tests;

pub use append::append;
pub use delivery::{Apply, DeliveryError, apply_span, deliver, delivered, first_seen};
pub use event::{event, kind, part_uuid};
pub use flush::FlushHandle;
pub use relay::{Relay, Subscribers};
pub use rows::{ClaimRequest, Lane, Settlement, claim, settle_and_claim};
