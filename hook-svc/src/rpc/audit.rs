//! Reports changes of webhooks to the audit log of repo-svc.

use ferrite_core::sealing::Sealer;
use ferrite_db::Tx;
use ferrite_events as outbox;
use ferrite_proto::events::event::Fact;
use ferrite_proto::events::{Event, HookAction, HookChanged};
use ferrite_proto::id::RepositoryId;
use ferrite_proto::metadata;
use ferrite_rpc::auth::Caller;
use tonic::metadata::MetadataMap;

use crate::error::HookError;
use crate::model::{Owner, url};
use crate::store::StoredHook;

pub(crate) const SUBSCRIBER: &str = "repo-svc";
/// Longer client addresses and request ids are recorded as empty.
const MAX_AUDIT_TEXT_BYTES: usize = 200;

#[derive(Clone, Debug)]
pub(crate) struct AuditContext {
    user_id: i64,
    username: String,
    address: String,
    request_id: String,
}

impl AuditContext {
    /// Reads the client address and the request id from the request's metadata, which is trusted
    /// only if the caller is the gateway.
    pub(super) fn new(caller: &Caller, user_id: i64, username: &str, request: &MetadataMap) -> Self {
        let text = |name| caller.gateway_text(request, name, MAX_AUDIT_TEXT_BYTES);
        let (address, request_id) = (text(metadata::CLIENT), text(metadata::REQUEST_ID));
        Self { user_id, username: username.to_owned(), address, request_id }
    }

    /// Adds the event of a change of `hook` to the outbox and returns it.
    pub(super) async fn record(
        self,
        tx: &mut Tx,
        sealer: &Sealer,
        hook: &StoredHook,
        action: HookAction,
        now_us: i64,
    ) -> Result<Event, HookError> {
        let organization_id = match hook.owner {
            Owner::Organization(id) => id,
            Owner::Site | Owner::Repository(_) => 0,
        };
        let fact = Fact::HookChanged(HookChanged {
            action: action.into(),
            hook_id: hook.id.0,
            organization_id,
            url: url::without_secrets(hook.url(sealer)?.expose(), hook.kind),
            user_id: self.user_id,
            username: self.username,
            address: self.address,
            request_id: self.request_id,
        });
        let event = outbox::event(hook.owner.repository().unwrap_or(RepositoryId(0)), now_us, fact);
        outbox::append(tx, &event, &[SUBSCRIBER], now_us).await?;
        Ok(event)
    }
}
