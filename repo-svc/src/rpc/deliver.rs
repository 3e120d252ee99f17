use ferrite_kit::db::{DbError, Tx};
use ferrite_kit::outbox::{self, Apply, DeliveryError};
use ferrite_proto::events::event::Fact;
use ferrite_proto::events::{DeliverRequest, DeliverResponse, Event};
use ferrite_proto::id::RepositoryId;
use tonic::Request;

use crate::access::Permit;
use crate::core::Core;

pub(super) async fn handle(
    core: &Core,
    _: Permit,
    request: Request<DeliverRequest>,
) -> Result<DeliverResponse, DeliveryError> {
    outbox::deliver(core, &core.db, core.clock.now_us(), request).await
}

impl Apply for Core {
    async fn apply(&self, tx: &mut Tx, event: &Event, now_us: i64) -> Result<(), DbError> {
        let id = RepositoryId(event.repository_id);
        match &event.fact {
            Some(Fact::RefsUpdated(update)) => {
                let time_us = event_time_us(event).unwrap_or(now_us).min(now_us);
                self.repositories.apply_refs(tx, id, update, time_us).await
            }
            Some(Fact::IssueChanged(change)) => self.repositories.apply_issues(tx, id, change).await,
            Some(Fact::SizeChanged(change)) => self.repositories.apply_size(tx, id, change).await,
            // Our own facts, or none: nothing to learn from them.
            Some(Fact::RepositoryCreated(_) | Fact::RepositoryDeleted(_)) | None => Ok(()),
        }
    }
}

fn event_time_us(event: &Event) -> Option<i64> {
    let time = event.event_time.as_ref()?;
    time.seconds.checked_mul(1_000_000)?.checked_add(i64::from(time.nanos) / 1_000)
}
