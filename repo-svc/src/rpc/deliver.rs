//! `Deliver`: events of the other services, about refs, sizes, open issues, branch protection, webhooks, migrations and mirrors.

use std::sync::{Mutex, PoisonError};

use ferrite_kit::db::{DbError, Tx};
use ferrite_kit::outbox::{self, Apply, DeliveryError};
use ferrite_proto::events::event::Fact;
use ferrite_proto::events::{DeliverRequest, DeliverResponse, Event, HookAction, HookChanged, ProtectionChanged};
use ferrite_proto::id::{RepositoryId, UserId};
use tonic::Request;

use super::migrations;
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::{
    Action, Actor, Entry, MigrationStore, OrganizationStore, QuotaStore, RepositoryStore, SizeChange, Target,
    UsageChanges, append,
};

pub(super) async fn handle(
    state: &AppState,
    _: Permit,
    request: Request<DeliverRequest>,
) -> Result<DeliverResponse, DeliveryError> {
    let handler = EventHandler {
        repositories: &state.repositories,
        organizations: &state.organizations,
        migrations: &state.migrations,
        quotas: &state.quotas,
        usage: Mutex::default(),
    };
    let tells = request.get_ref().events.iter().any(|event| matches!(event.fact, Some(Fact::MigrationEnded(_))));
    let answer = outbox::deliver(&handler, &state.db, state.clock.now_us(), request).await?;
    if tells {
        state.relay.wake();
    }
    Ok(answer)
}

/// Applies the events of other services to the repositories they are about.
struct EventHandler<'a> {
    repositories: &'a RepositoryStore,
    organizations: &'a OrganizationStore,
    migrations: &'a MigrationStore,
    quotas: &'a QuotaStore,
    /// Changes of the bytes that owners use, of all events together.
    usage: Mutex<UsageChanges>,
}

impl Apply for EventHandler<'_> {
    async fn apply(&self, tx: &mut Tx, event: &Event, now_us: i64) -> Result<(), DbError> {
        let id = RepositoryId(event.repository_id);
        match &event.fact {
            Some(Fact::RefsUpdated(update)) => {
                let time_us = event_time_us(event).unwrap_or(now_us).min(now_us);
                self.note(self.repositories.apply_refs(tx, id, update, time_us).await?);
                Ok(())
            }
            Some(Fact::IssueChanged(change)) => self.repositories.apply_issues(tx, id, change).await,
            Some(Fact::SizeChanged(change)) => {
                self.note(self.repositories.apply_size(tx, id, change).await?);
                Ok(())
            }
            Some(Fact::ProtectionChanged(change)) => {
                let time_us = event_time_us(event).unwrap_or(now_us).min(now_us);
                record_protection(self.repositories, tx, id, change, time_us).await
            }
            Some(Fact::HookChanged(change)) => {
                let time_us = event_time_us(event).unwrap_or(now_us).min(now_us);
                self.record_hook(tx, id, change, time_us).await
            }
            Some(Fact::MigrationEnded(end)) => {
                let (repositories, quotas) = (self.repositories, self.quotas);
                let change = migrations::end::apply(repositories, self.migrations, quotas, tx, id, end, now_us);
                self.note(change.await?);
                Ok(())
            }
            Some(Fact::MirrorChanged(change)) => self.repositories.apply_mirror(tx, id, change).await,
            // Events of this service itself, and those for others.
            _ => Ok(()),
        }
    }

    async fn finish(&self, tx: &mut Tx) -> Result<(), DbError> {
        let usage = std::mem::take(&mut *self.usage());
        usage.write(tx).await
    }
}

impl EventHandler<'_> {
    fn usage(&self) -> std::sync::MutexGuard<'_, UsageChanges> {
        // Never poisoned: no code panics while it holds the lock.
        self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a change of the bytes that an owner uses, for the end of the transaction.
    fn note(&self, change: Option<SizeChange>) {
        if let Some(change) = change {
            self.usage().add(change.owner, change.bytes);
        }
    }
    /// Records a change of a webhook in the audit log. If its repository or organization is deleted by now, the entry has the id only.
    async fn record_hook(
        &self,
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
        let target = match (change.organization_id, id.0) {
            (0, 0) => Target::site(),
            (0, _) => Target::repository_named(id, self.repositories.full_name(tx, id).await?.unwrap_or_default()),
            (organization, _) => {
                let organization = UserId(organization);
                let name = self.organizations.name(tx, organization).await?.unwrap_or_default();
                Target::organization(organization, &name)
            }
        };
        let actor = Actor {
            id: change.user_id,
            name: change.username.clone(),
            token_id: 0,
            address: change.address.clone(),
            request_id: change.request_id.clone(),
        };
        let details = [("hook_id", change.hook_id.to_string()), ("url", change.url.clone())];
        append(tx, Entry { actor: &actor, action, target, details: &details }, time_us).await
    }
}

/// Records a change of a branch protection in the audit log. If the repository is deleted by now, the entry has its id only.
async fn record_protection(
    repositories: &RepositoryStore,
    tx: &mut Tx,
    id: RepositoryId,
    change: &ProtectionChanged,
    time_us: i64,
) -> Result<(), DbError> {
    let actor = Actor {
        id: change.user_id,
        name: change.username.clone(),
        // Unknown: a grant does not name the token.
        token_id: 0,
        address: change.address.clone(),
        request_id: change.request_id.clone(),
    };
    let mut details = vec![("pattern", change.pattern.clone())];
    let action = if change.is_removed { Action::ProtectionRemove } else { Action::ProtectionSet };
    if !change.is_removed {
        let users: Vec<_> = change.push_user_ids.iter().map(ToString::to_string).collect();
        details.push(("allow_force", change.allow_force.to_string()));
        details.push(("allow_delete", change.allow_delete.to_string()));
        details.push(("push_user_ids", users.join(",")));
    }
    let name = repositories.full_name(tx, id).await?.unwrap_or_default();
    let entry = Entry { actor: &actor, action, target: Target::repository_named(id, name), details: &details };
    append(tx, entry, time_us).await
}

fn event_time_us(event: &Event) -> Option<i64> {
    let time = event.event_time.as_ref()?;
    time.seconds.checked_mul(1_000_000)?.checked_add(i64::from(time.nanos) / 1_000)
}
