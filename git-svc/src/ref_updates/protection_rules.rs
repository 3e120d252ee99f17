//! Changes branch protection rules, each together with an audit event (`ProtectionChanged`).

use ferrite_events as outbox;
use ferrite_proto::{
    events::{ProtectionChanged, event::Fact},
    grant::Grant,
    metadata,
};
use ferrite_rpc::auth::Caller;
use git_store::types::{error::GitError, protection::Rule};
use tonic::metadata::MetadataMap;

use super::{
    subscribers::{AWAITED, subscribers},
    updater::{DeliveryWait, RefUpdater, WriteGuard},
};
use crate::{db::ProtectionTable, rpc_error::RpcError};

/// Limit on a recorded client address or request id. A longer one is recorded as empty.
const MAX_AUDIT_TEXT_BYTES: usize = 200;

/// User, client address and request id for the audit event of a rule change.
#[derive(Clone, Debug)]
pub(crate) struct AuditContext {
    user: i64,
    name: String,
    address: String,
    request: String,
}

impl AuditContext {
    /// Takes the user from `grant`. Takes client address and request id from the request's metadata
    /// if the caller is the gateway.
    pub(crate) fn of(caller: &Caller, grant: &Grant, request: &MetadataMap) -> Self {
        let text = |name| caller.gateway_text(request, name, MAX_AUDIT_TEXT_BYTES);
        let (user, name) = grant.user.as_ref().map_or((0, String::new()), |user| (user.id, user.username.clone()));
        Self { user, name, address: text(metadata::CLIENT), request: text(metadata::REQUEST_ID) }
    }

    fn fact(self, rule: &Rule, is_removed: bool) -> Fact {
        Fact::ProtectionChanged(ProtectionChanged {
            pattern: rule.pattern.as_str().to_owned(),
            is_removed,
            allow_force: !is_removed && rule.allow_force,
            allow_delete: !is_removed && rule.allow_delete,
            push_user_ids: if is_removed { Vec::new() } else { rule.users.clone() },
            forbids_push: !is_removed && rule.forbids_push,
            requires_checks: !is_removed && rule.checks.are_required,
            required_contexts: if is_removed { Vec::new() } else { rule.checks.contexts.clone() },
            user_id: self.user,
            username: self.name,
            address: self.address,
            request_id: self.request,
        })
    }
}

impl RefUpdater {
    /// Creates a rule, or replaces the one with the same pattern. Sets `rule.id`.
    pub(crate) async fn set_rule(
        &self,
        guard: &WriteGuard,
        rule: &mut Rule,
        by: AuditContext,
    ) -> Result<DeliveryWait, RpcError> {
        let mut tx = self.inner().db.begin().await?;
        rule.id = ProtectionTable::set(&mut tx, guard.id, rule).await?;
        self.commit_with_event(guard, tx, by.fact(rule, false)).await
    }

    /// Deletes a rule. Fails with `ProtectionNotFound` if there is none.
    pub(crate) async fn remove_rule(
        &self,
        guard: &WriteGuard,
        rule: &Rule,
        by: AuditContext,
    ) -> Result<DeliveryWait, RpcError> {
        let mut tx = self.inner().db.begin().await?;
        if !ProtectionTable::delete(&mut tx, guard.id, rule.id).await? {
            return Err(GitError::ProtectionNotFound.into());
        }
        self.commit_with_event(guard, tx, by.fact(rule, true)).await
    }

    /// Appends the event to the outbox and commits the transaction.
    async fn commit_with_event(
        &self,
        guard: &WriteGuard,
        tx: ferrite_db::Tx,
        fact: Fact,
    ) -> Result<DeliveryWait, RpcError> {
        let inner = self.inner();
        let now = inner.clock.now_us();
        let subscribers = subscribers(&fact);
        let event = outbox::event(guard.id, now, fact);
        let flush = inner.relay.commit(tx, &event, subscribers, AWAITED, now).await?;
        Ok(Box::pin(flush.wait()))
    }
}
