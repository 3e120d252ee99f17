//! The RPCs of hook-svc, one noun per file.
//!
//! Not here: SQL, and the rules of URLs, types and events.

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
    /// Commits a write together with `response`, which is always a small one, for a request that is repeated with the same key. If it has an
    /// event, waits a moment for its delivery, so that a client that writes and then reads the audit log finds the change there.
    ///
    /// # Errors
    /// A failure of the database.
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

    /// As [`AppState::commit`], for a response that may be too large to be stored: `subject` is the id of what it shows, of which a repeated
    /// request gets it anew.
    ///
    /// # Errors
    /// A failure of the database.
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
