//! The audit events of branch protection rules (`ProtectionChanged`), and the rule that follows a
//! renamed branch.

use ferrite_db::{Db, DbError, Tx};
use ferrite_proto::{
    events::{ProtectionChanged, event::Fact},
    grant::Grant,
    id::RepositoryId,
    metadata,
};
use ferrite_rpc::auth::Caller;
use git_store::types::{
    name::BranchName,
    protection::{Pattern, Rule},
    required_reviews::RequiredReviews,
};
use tonic::metadata::MetadataMap;

use crate::db::ProtectionTable;

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

    /// A user of whom nothing else is known, for a change that recovery completes.
    pub(super) fn of_user(user: i64) -> Self {
        Self { user, name: String::new(), address: String::new(), request: String::new() }
    }

    pub(super) fn fact(self, rule: &Rule, is_removed: bool) -> Fact {
        let reviews = if is_removed { RequiredReviews::default() } else { rule.reviews.clone() };
        Fact::ProtectionChanged(ProtectionChanged {
            pattern: rule.pattern.as_str().to_owned(),
            is_removed,
            allow_force: !is_removed && rule.allow_force,
            allow_delete: !is_removed && rule.allow_delete,
            push_user_ids: if is_removed { Vec::new() } else { rule.users.clone() },
            forbids_push: !is_removed && rule.forbids_push,
            requires_checks: !is_removed && rule.checks.are_required,
            required_contexts: if is_removed { Vec::new() } else { rule.checks.contexts.clone() },
            merge_user_ids: if is_removed { Vec::new() } else { rule.mergers.clone() },
            requires_current_head: !is_removed && rule.requires_current_head,
            user_id: self.user,
            username: self.name,
            address: self.address,
            request_id: self.request,
            required_approvals: reviews.approvals.into(),
            approver_ids: reviews.approvers,
            dismisses_stale_approvals: reviews.dismisses_stale,
            ignores_stale_approvals: reviews.ignores_stale,
            blocks_on_rejection: reviews.blocks_on_rejection,
            blocks_on_requests: reviews.blocks_on_requests,
        })
    }
}

/// The rule of a renamed branch, which gets the branch's new name.
pub(super) struct RuleRename {
    rule: Rule,
    pattern: Pattern,
    by: AuditContext,
}

impl RuleRename {
    /// Finds the rule with exactly the old name. The caller must hold the repository's write lock.
    pub(super) async fn find(
        db: &Db,
        id: RepositoryId,
        (old, new): &(BranchName, BranchName),
        by: AuditContext,
    ) -> Result<Option<Self>, DbError> {
        let rules = ProtectionTable::new(db.clone()).list(id).await?;
        let Some(rule) = rules.exact(old.as_bytes()).cloned() else { return Ok(None) };
        // The new name was checked before the refs moved.
        let pattern = std::str::from_utf8(new.as_bytes()).ok().and_then(|name| Pattern::parse(name).ok());
        Ok(pattern.map(|pattern| Self { rule, pattern, by }))
    }

    /// Stores the new pattern. Returns `false` if there is nothing to store.
    pub(super) async fn store(&self, tx: &mut Tx, id: RepositoryId, now_us: i64) -> Result<bool, DbError> {
        ProtectionTable::rename(tx, id, self.rule.id, &self.pattern, now_us).await
    }

    /// Returns the audit events: the old rule is removed, and the new one is set.
    pub(super) fn facts(self) -> [Fact; 2] {
        let renamed = Rule { pattern: self.pattern, ..self.rule.clone() };
        [self.by.clone().fact(&self.rule, true), self.by.fact(&renamed, false)]
    }
}
