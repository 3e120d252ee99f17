//! The RPCs of hook-svc, one noun per file.

mod activities;
mod audit;
mod authorize;
mod deliver;
mod deliveries;
mod feed;
mod hooks;
mod split;

use ferrite_db::Tx;
use ferrite_db::idempotency::IdempotencyKey;
use ferrite_proto::events::Event;
use prost::Message;

pub(crate) use audit::SUBSCRIBER;

use crate::error::HookError;
use crate::state::AppState;

impl AppState {
    /// Commits a write and stores its small `response` for repeated requests with the same key. If
    /// there is an event, waits a moment for its delivery, so that the client finds the change in
    /// the audit log.
    async fn commit<A: Message>(
        &self,
        tx: Tx,
        event: Option<Event>,
        key: Option<&IdempotencyKey>,
        response: A,
        now_us: i64,
    ) -> Result<A, HookError> {
        self.commit_with_subject(tx, event, key, response, 0, now_us).await
    }

    /// Like [`AppState::commit`], for a response that may be too large to store. A repeated request
    /// then gets a new response about the object with the id `subject`.
    async fn commit_with_subject<A: Message>(
        &self,
        mut tx: Tx,
        event: Option<Event>,
        key: Option<&IdempotencyKey>,
        response: A,
        subject: i64,
        now_us: i64,
    ) -> Result<A, HookError> {
        if let Some(key) = key {
            key.store_with_subject(&mut tx, &response, &subject, now_us).await?;
        }
        let flush = event.map(|event| self.relay.flush(&event, &[SUBSCRIBER]));
        tx.commit().await?;
        if let Some(flush) = flush {
            flush.wait().await;
        }
        Ok(response)
    }
}
