//! Facts that travel: written in the transaction of the change, delivered in order per repository, applied once.
//!
//! Every service that uses this has two tables in its migrations (see `docs/events.md`): `outbox`, one row per event and subscriber,
//! and `inbox`, one row per event applied. Rows stay for a while after they are done, so that people can look.
//!
//! Not here: what an event means. Payloads are [`ferrite_proto::events::Event`]s, decoded by the subscriber.

mod delivery;
mod inbox;
mod relay;
mod rows;

pub use delivery::{Apply, DeliveryError, deliver, delivered};
pub use inbox::first_seen;
pub use relay::{Flush, Relay, Subscribers};
pub use rows::append;

use ferrite_proto::events::Event;
use ferrite_proto::events::event::Fact;

/// The name of a fact in rows, logs and metrics.
#[must_use]
pub fn kind(event: &Event) -> &'static str {
    match &event.fact {
        Some(Fact::RepositoryCreated(_)) => "repository.created",
        Some(Fact::RepositoryDeleted(_)) => "repository.deleted",
        Some(Fact::RefsUpdated(_)) => "refs.updated",
        Some(Fact::IssueChanged(_)) => "issue.changed",
        Some(Fact::SizeChanged(_)) => "size.changed",
        Some(Fact::ProtectionChanged(_)) => "protection.changed",
        None => "unknown",
    }
}

/// An event about a repository, with a new id.
#[must_use]
pub fn event(repository: ferrite_proto::id::RepositoryId, now_us: i64, fact: Fact) -> Event {
    Event {
        event_id: uuid::Uuid::new_v4().to_string(),
        repository_id: repository.0,
        event_time: Some(crate::timestamp(now_us)),
        fact: Some(fact),
    }
}

#[cfg(test)]
mod tests;
