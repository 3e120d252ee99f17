use ferrite_kit::auth::Caller;
use ferrite_kit::db::Tx;
use ferrite_kit::outbox;
use ferrite_proto::events::event::Fact;
use ferrite_proto::events::{DeliverRequest, DeliverResponse, Event};
use ferrite_proto::id::RepositoryId;
use tonic::Request;

use crate::RepoError;
use crate::core::Core;

const MAX_EVENTS: usize = 64;
const MAX_ID_BYTES: usize = 64;

pub(super) async fn handle(core: &Core, request: Request<DeliverRequest>) -> Result<DeliverResponse, RepoError> {
    Caller::of(&request).require_service()?;
    let events = request.into_inner().events;
    if events.len() > MAX_EVENTS {
        return Err(RepoError::field("events", "too_long", "at most 64 events can be delivered at once"));
    }
    if events.iter().any(|event| !is_id(&event.event_id)) {
        return Err(RepoError::field("events.event_id", "invalid", "must be a UUID"));
    }
    if events.iter().any(|event| event.fact.is_none()) {
        return Err(RepoError::field("events.fact", "unknown", "is not known to this version"));
    }
    let now = core.clock.now_us();
    let mut tx = core.db.begin().await?;
    for event in &events {
        if outbox::first_seen(&mut tx, event, now).await? {
            apply(core, &mut tx, event, now).await?;
        }
    }
    tx.commit().await?;
    Ok(DeliverResponse {})
}

async fn apply(core: &Core, tx: &mut Tx, event: &Event, now_us: i64) -> Result<(), RepoError> {
    let id = RepositoryId(event.repository_id);
    match &event.fact {
        Some(Fact::RefsUpdated(update)) => {
            core.repositories.apply_refs(tx, id, update, event_time_us(event).unwrap_or(now_us).min(now_us)).await?;
        }
        Some(Fact::IssueChanged(change)) => core.repositories.apply_issues(tx, id, change).await?,
        // Our own facts, or none: nothing to learn from them.
        Some(Fact::RepositoryCreated(_) | Fact::RepositoryDeleted(_)) | None => {}
    }
    Ok(())
}

fn event_time_us(event: &Event) -> Option<i64> {
    let time = event.event_time.as_ref()?;
    time.seconds.checked_mul(1_000_000)?.checked_add(i64::from(time.nanos) / 1_000)
}

fn is_id(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= MAX_ID_BYTES
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}
