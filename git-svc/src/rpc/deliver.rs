//! Receives events of other services.

use ferrite_events as outbox;
use ferrite_listener::service;
use ferrite_proto::{
    events::{DeliverRequest, DeliverResponse, Event, event::Fact, event_sink_server::EventSink},
    id::RepositoryId,
};
use tonic::Request;
use tracing::Instrument as _;

use super::{finish, repositories::delete};
use crate::{rpc_error::RpcError, state::AppState};

service!(EventSink for AppState {
    deliver(DeliverRequest) -> DeliverResponse;
});

/// Only deletions of repositories matter here.
async fn deliver(state: &AppState, request: Request<DeliverRequest>) -> Result<DeliverResponse, RpcError> {
    let events = outbox::delivered(request)?;
    finish(state, async move |state| apply(&state, events).await).await?;
    Ok(DeliverResponse {})
}

/// Applies events in order. Deletion is idempotent, so a repeated event does no harm: a delivery is
/// repeated as a whole if one of its events fails.
async fn apply(state: &AppState, events: Vec<Event>) -> Result<(), RpcError> {
    for event in &events {
        apply_one(state, event).instrument(outbox::apply_span(event)).await?;
    }
    Ok(())
}

async fn apply_one(state: &AppState, event: &Event) -> Result<(), RpcError> {
    match &event.fact {
        Some(Fact::RepositoryDeleted(fact)) => {
            // Delete the wiki first: deleting the repository marks the event as seen.
            if fact.wiki_id > 0 {
                delete(state, RepositoryId(fact.wiki_id), &[]).await?;
            }
            delete(state, RepositoryId(event.repository_id), std::slice::from_ref(event)).await
        }
        _ => {
            let mut tx = state.db.begin().await?;
            outbox::first_seen(&mut tx, event, state.clock.now_us()).await?;
            Ok(tx.commit().await?)
        }
    }
}
