use ferrite_core::Clock;
use ferrite_db::Tx;
use ferrite_db::idempotency::IdempotencyKey;
use ferrite_events::Relay;
use ferrite_outbound::Policy;
use ferrite_proto::events::Event;
use ferrite_rpc::auth::Authorizer;
use ferrite_rpc::rate_limit::HourlyLimit;
use prost::Message;

use super::audit::SUBSCRIBER;
use crate::dispatch::Renderer;
use crate::error::HookError;
use crate::sender::Sender;
use crate::store::HookTable;

/// The services that every RPC uses.
#[derive(Clone, Debug)]
pub(crate) struct HookRpc {
    pub(crate) store: HookTable,
    pub(crate) authorizer: Authorizer,
    pub(crate) relay: Relay,
    /// Addresses that URLs may have.
    pub(crate) policy: Policy,
    /// Most webhooks of one owner.
    pub(crate) owner_limit: i64,
    /// Webhooks of one user within an hour.
    pub(crate) creations: HourlyLimit,
    /// Deliveries that one user asks for within an hour: tests, and those that are sent again.
    pub(crate) deliveries: HourlyLimit,
    /// Makes the payloads of tests.
    pub(crate) renderer: Renderer,
    pub(crate) sender: Sender,
    pub(crate) clock: Clock,
}

impl HookRpc {
    /// Commits a write together with `answer`, which is always a small one, for a request that is repeated with the same key. If it has an
    /// event, waits a moment for its delivery, so that a client that writes and then reads the audit log finds the change there.
    ///
    /// # Errors
    /// A failure of the database.
    pub(super) async fn commit<A: Message>(
        &self,
        tx: Tx,
        event: Option<Event>,
        key: Option<&IdempotencyKey>,
        answer: A,
        now_us: i64,
    ) -> Result<A, HookError> {
        self.commit_with_subject(tx, event, key, answer, 0, now_us).await
    }

    /// As [`HookRpc::commit`], for an answer that may be too large to be stored: `subject` is the id of what it shows, of which a repeated
    /// request gets it anew.
    ///
    /// # Errors
    /// A failure of the database.
    pub(super) async fn commit_with_subject<A: Message>(
        &self,
        mut tx: Tx,
        event: Option<Event>,
        key: Option<&IdempotencyKey>,
        answer: A,
        subject: i64,
        now_us: i64,
    ) -> Result<A, HookError> {
        if let Some(key) = key {
            key.store_with_subject(&mut tx, &answer, &subject, now_us).await?;
        }
        let flush = event.map(|event| self.relay.flush(&event, &[SUBSCRIBER]));
        tx.commit().await?;
        if let Some(flush) = flush {
            flush.wait().await;
        }
        Ok(answer)
    }
}
