//! Receives events of the other services: refs, sizes, languages, open issues, branch protection, webhooks,
//! imports and mirrors.

use ferrite_db::{DbError, Tx};
use ferrite_events as outbox;
use ferrite_events::{Apply, DeliveryError};
use ferrite_proto::events::event::Fact;
use ferrite_proto::events::event_sink_server::EventSink;
use ferrite_proto::events::{
    DeliverRequest, DeliverResponse, Event, HookAction, HookChanged, ProtectionChanged, RefsUpdateKind, RefsUpdated,
};
use ferrite_proto::id::{RepositoryId, UserId};
use parking_lot::Mutex;
use tonic::Request;

use super::dispatch::authorized_service;
use super::imports;
use crate::rpc::authorized::Authorized;
use crate::state::AppState;
use crate::store::{Action, Actor, Entry, SizeChange, Target, UsageChanges, append, user_name};

authorized_service!(EventSink {
    deliver(DeliverRequest) -> DeliverResponse;
});

async fn deliver(
    state: &AppState,
    _: Authorized,
    request: Request<DeliverRequest>,
) -> Result<DeliverResponse, DeliveryError> {
    let handler = EventHandler { state, usage: Mutex::default() };
    let tells = request.get_ref().events.iter().any(|event| matches!(event.fact, Some(Fact::MigrationEnded(_))));
    let response = outbox::deliver(&handler, &state.db, state.clock.now_us(), request).await?;
    if tells {
        state.relay.wake();
    }
    Ok(response)
}

struct EventHandler<'a> {
    state: &'a AppState,
    /// Changes of owners' byte usage, summed over all events.
    usage: Mutex<UsageChanges>,
}

impl Apply for EventHandler<'_> {
    async fn apply(&self, tx: &mut Tx, event: &Event, now_us: i64) -> Result<(), DbError> {
        let (state, repositories) = (self.state, &self.state.repositories);
        let (id, time_us) = (RepositoryId(event.repository_id), event_time_us(event).unwrap_or(now_us).min(now_us));
        match &event.fact {
            Some(Fact::RefsUpdated(update)) => {
                self.note(repositories.apply_refs(tx, id, update, time_us).await?);
                record_branch_rename(state, tx, id, update, time_us).await?;
            }
            Some(Fact::IssueChanged(change)) => repositories.apply_issues(tx, id, change).await?,
            Some(Fact::SizeChanged(change)) => self.note(repositories.apply_size(tx, id, change).await?),
            Some(Fact::ProtectionChanged(change)) => record_protection(state, tx, id, change, time_us).await?,
            Some(Fact::HookChanged(change)) => record_hook(state, tx, id, change, time_us).await?,
            Some(Fact::MigrationEnded(end)) => self.note(imports::apply_end(state, tx, id, end, now_us).await?),
            Some(Fact::LanguageChanged(change)) => repositories.apply_language(tx, id, change).await?,
            Some(Fact::MirrorChanged(change)) => repositories.apply_mirror(tx, id, change).await?,
            // Our own events, and events for other services.
            _ => {}
        }
        Ok(())
    }

    async fn finish(&self, tx: &mut Tx) -> Result<(), DbError> {
        let usage = std::mem::take(&mut *self.usage.lock());
        usage.write(tx).await
    }
}

impl EventHandler<'_> {
    /// Adds to the usage changes that are written at the end of the transaction.
    fn note(&self, change: Option<SizeChange>) {
        if let Some(change) = change {
            self.usage.lock().add(change.owner, change.bytes);
        }
    }
}

/// Records a webhook change in the audit log. If the repository or organization was deleted in the
/// meantime, the entry has only the id.
async fn record_hook(
    state: &AppState,
    tx: &mut Tx,
    id: RepositoryId,
    change: &HookChanged,
    time_us: i64,
) -> Result<(), DbError> {
    let action = match change.action() {
        HookAction::Created => Action::HookCreate,
        HookAction::Updated => Action::HookUpdate,
        HookAction::Deleted => Action::HookDelete,
        HookAction::Unspecified => return Ok(()),
    };
    let target = match (UserId(change.organization_id), id.0) {
        (UserId(0), 0) => Target::site(),
        (UserId(0), _) => Target::repository_named(id, state.repositories.full_name(tx, id).await?.unwrap_or_default()),
        (organization, _) => {
            let name = state.organizations.name(tx, organization).await?.unwrap_or_default();
            Target::organization(organization, &name)
        }
    };
    let actor = actor(change.user_id, &change.username, &change.address, &change.request_id);
    let details = [("hook_id", change.hook_id.to_string()), ("url", change.url.clone())];
    append(tx, Entry { actor: &actor, action, target, details: &details }, time_us).await
}

/// Records a branch protection change in the audit log. If the repository was deleted in the
/// meantime, the entry has only the id.
async fn record_protection(
    state: &AppState,
    tx: &mut Tx,
    id: RepositoryId,
    change: &ProtectionChanged,
    time_us: i64,
) -> Result<(), DbError> {
    let actor = actor(change.user_id, &change.username, &change.address, &change.request_id);
    let mut details = vec![("pattern", change.pattern.clone())];
    let action = if change.is_removed { Action::ProtectionRemove } else { Action::ProtectionSet };
    if !change.is_removed {
        let users = |ids: &[i64]| ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        details.push(("allow_force", change.allow_force.to_string()));
        details.push(("allow_delete", change.allow_delete.to_string()));
        details.push(("push_user_ids", users(&change.push_user_ids)));
        details.push(("forbids_push", change.forbids_push.to_string()));
        details.push(("requires_checks", change.requires_checks.to_string()));
        details.push(("required_contexts", change.required_contexts.join(",")));
        details.push(("merge_user_ids", users(&change.merge_user_ids)));
        details.push(("requires_current_head", change.requires_current_head.to_string()));
        details.push(("required_approvals", change.required_approvals.to_string()));
        details.push(("approver_ids", users(&change.approver_ids)));
        details.push(("dismisses_stale_approvals", change.dismisses_stale_approvals.to_string()));
        details.push(("ignores_stale_approvals", change.ignores_stale_approvals.to_string()));
        details.push(("blocks_on_rejection", change.blocks_on_rejection.to_string()));
        details.push(("blocks_on_requests", change.blocks_on_requests.to_string()));
    }
    let name = state.repositories.full_name(tx, id).await?.unwrap_or_default();
    let entry = Entry { actor: &actor, action, target: Target::repository_named(id, name), details: &details };
    append(tx, entry, time_us).await
}

/// Records the rename of the default branch in the audit log, like a change of this setting. Does
/// nothing for another update.
async fn record_branch_rename(
    state: &AppState,
    tx: &mut Tx,
    id: RepositoryId,
    update: &RefsUpdated,
    time_us: i64,
) -> Result<(), DbError> {
    let Some((old, new)) = renamed_default_branch(update) else { return Ok(()) };
    let username = user_name(tx, UserId(update.user_id)).await?.unwrap_or_default();
    let actor = actor(update.user_id, &username, "", "");
    let details = [("fields", "default_branch".to_owned()), ("from", old), ("to", new)];
    let target = Target::repository_named(id, state.repositories.full_name(tx, id).await?.unwrap_or_default());
    append(tx, Entry { actor: &actor, action: Action::RepositoryUpdate, target, details: &details }, time_us).await
}

/// Returns the old and the new name if an update renamed the default branch: only a rename through
/// the API deletes a branch and creates another one.
fn renamed_default_branch(update: &RefsUpdated) -> Option<(String, String)> {
    let [one, two] = update.updates.as_slice() else { return None };
    let is_zero = |id: &str| id.bytes().all(|byte| byte == b'0');
    let (old, new) = if is_zero(&one.new_id) { (one, two) } else { (two, one) };
    let is_rename = update.kind() == RefsUpdateKind::Api && is_zero(&old.new_id) && is_zero(&new.old_id);
    let (old, new) = (old.name.strip_prefix(b"refs/heads/")?, new.name.strip_prefix(b"refs/heads/")?);
    let text = |name| String::from_utf8_lossy(name).into_owned();
    (is_rename && new == update.default_branch).then(|| (text(old), text(new)))
}

/// The actor named in an event. Its token is unknown, because grants do not name it.
fn actor(id: i64, name: &str, address: &str, request_id: &str) -> Actor {
    let [name, address, request_id] = [name, address, request_id].map(str::to_owned);
    Actor { id, name, token_id: 0, address, request_id }
}

fn event_time_us(event: &Event) -> Option<i64> {
    let time = event.event_time.as_ref()?;
    time.seconds.checked_mul(1_000_000)?.checked_add(i64::from(time.nanos) / 1_000)
}
