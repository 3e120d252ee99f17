use std::collections::BTreeMap;

use ferrite_api_types::convert::MissingField;
use ferrite_proto::operation;
use ferrite_proto::repo::{self, ListAuditEventsRequest};
use serde::Serialize;

use crate::api::access::PermissionCheck;
use crate::api::call::{Authenticated, operations};
use crate::http::error::ApiResult;
use crate::http::filters::{QueryOf, Search, filters};
use crate::http::page::ExtensionList;
use crate::http::request::Time;
use crate::http::response::List;

operations! {
    "/api/v1/admin/audit" => get list as operation::LIST_AUDIT_EVENTS;
}

filters! {
    /// Filters of the audit log.
    struct AuditFilters {
        /// The name of the actor at the time of the event.
        actor: Search = "bob",
        /// The target: the name of a user or organization, `owner/name` of a repository, or
        /// `organization/team`.
        target: Search = "bob/demo",
        /// The action, or its part before the dot.
        action: Search = "collaborator.add",
        /// Only events at this time or later.
        since: Time = "2026-01-02T03:04:05Z",
        /// Only events before this time.
        until: Time = "2026-01-03T03:04:05Z",
    }
}

ferrite_api_types::shape! {
    /// An event in the audit log: a change of access, accounts, tokens or settings.
    #[derive(Clone, Debug, Serialize)]
    struct AuditEvent {
        id: i64,
        time: Time,
        actor: AuditActor,
        /// The token that was used; zero for a password or the command line.
        token_id: i64,
        /// The action, such as `collaborator.add`.
        action: String,
        target: AuditTarget,
        /// Further details, such as a permission or the name of a key. Never contains secrets.
        details: BTreeMap<String, String>,
        /// The client's address; empty if unknown.
        address: String,
        /// The request id in the logs; empty if there was none.
        request_id: String,
    }
}

ferrite_api_types::shape! {
    /// The account that made a change.
    #[derive(Clone, Debug, Serialize)]
    struct AuditActor {
        /// The id of the account; zero for the operator at the command line.
        id: i64,
        /// The name at that time.
        username: String,
    }
}

ferrite_api_types::shape! {
    /// The target of a change.
    #[derive(Clone, Debug, Serialize)]
    struct AuditTarget {
        /// The kind: `user`, `organization`, `team`, `repository`, `store` or `site`.
        kind: String,
        id: i64,
        /// The name at that time.
        name: String,
    }
}

impl AuditEvent {
    fn new(event: repo::AuditEvent) -> Result<Self, MissingField> {
        Ok(Self {
            id: event.id,
            time: Time::new(event.time, "time")?,
            actor: AuditActor { id: event.actor_id, username: event.actor },
            token_id: event.token_id,
            action: event.action,
            target: AuditTarget { kind: event.target_kind, id: event.target_id, name: event.target },
            details: event.details.into_iter().collect(),
            address: event.address,
            request_id: event.request_id,
        })
    }
}

async fn list(
    Authenticated(call): Authenticated,
    query: ExtensionList,
    filters: QueryOf<AuditFilters>,
) -> ApiResult<List<AuditEvent>> {
    let check = PermissionCheck::of(operation::LIST_AUDIT_EVENTS);
    let AuditFilters { actor, target, action, since, until } = call.after_permission(check, filters.read()).await?;
    let (page, page_size) = (query.page.number, query.page.size);
    let request = call.request(ListAuditEventsRequest { actor, target, action, since, until, page, page_size });
    let response = call.clients.administration().list_audit_events(request).await?.into_inner();
    let events = response.events.into_iter().map(AuditEvent::new).collect::<Result<Vec<_>, _>>()?;
    Ok(query.list(events, response.total_count, &call.links))
}

#[cfg(test)]
mod tests {
    use prost_types::Timestamp;

    use super::*;
    use crate::http::query::Query;

    #[test]
    fn a_period_has_two_times_or_every_mistake_in_them() {
        let read = |query: &str| QueryOf::<AuditFilters>::of(Query::new("/", query)).read();
        let period = |query: &str| read(query).map(|AuditFilters { since, until, .. }| (since, until));
        let (since, until) = period("since=2026-01-02T03:04:05+02:00&until=2026-01-02T01:04:05.5Z").unwrap();
        assert_eq!(since, Some(Timestamp { seconds: 1_767_315_845, nanos: 0 }));
        assert_eq!(until, Some(Timestamp { seconds: 1_767_315_845, nanos: 500_000_000 }));
        assert_eq!(period("since=&x=1").unwrap(), (None, None));
        let error = period("since=now&until=2026-01-02").unwrap_err();
        assert_eq!(error.status.as_u16(), 422);
    }
}
