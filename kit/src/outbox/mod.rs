//! Events between services: written in the transaction of the change, delivered in order per repository, applied once.
//!
//! Every service that uses this module has two tables in its migrations (see `docs/events.md`): `outbox`, one row per event and
//! subscriber, and `inbox`, one row per applied event. Rows stay for a week after the delivery, for inspection.
//!
//! Not here: the effects of an event, which each subscriber implements as [`Apply`].

mod delivery;
mod event;
mod inbox;
mod relay;
mod rows;

#[cfg(test)]
mod tests;

pub use delivery::{Apply, DeliveryError, deliver, delivered};
pub use event::{event, kind};
pub use inbox::first_seen;
pub use relay::{FlushHandle, Relay, Subscribers};
pub use rows::append;
