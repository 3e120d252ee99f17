//! Changes branch protection rules, each together with an audit event (`ProtectionChanged`).

use ferrite_events as outbox;
use ferrite_proto::events::event::Fact;
use git_store::types::{error::GitError, protection::Rule};

use super::{
    audit::AuditContext,
    subscribers::{AWAITED, subscribers},
    updater::{DeliveryWait, RefUpdater, WriteGuard},
};
use crate::{db::ProtectionTable, rpc_error::RpcError};

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
