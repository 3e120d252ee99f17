//! Facts that travel: written in the transaction of the change, delivered in order per repository, applied once.
//!
//! Every service that uses this has two tables in its migrations (see `docs/events.md`): `outbox`, one row per event and subscriber,
//! and `inbox`, one row per event applied. Rows stay for a while after they are done, so that people can look.
//!
//! Not here: what an event means. Payloads are [`ferrite_proto::events::Event`]s, decoded by the subscriber.

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
