//! The audit log, for administrators of the site.

use ferrite_proto::operation;
use ferrite_proto::repo::ListAuditEventsRequest;
use prost_types::Timestamp;

use crate::api::access::PermissionCheck;
use crate::api::call::{Authenticated, routes};
use crate::api::issues::value;
use crate::dto::AuditEvent;
use crate::http::error::{ApiError, ApiResult};
use crate::http::json;
use crate::http::page::PageLimits;
use crate::http::query::Query;

routes! {
    "/api/v1/admin/audit" => get list as operation::LIST_AUDIT_EVENTS;
}

async fn list(Authenticated(call): Authenticated, query: Query) -> ApiResult {
    let page = query.page(PageLimits::EXTENSION_LIST);
    let check = PermissionCheck::of(operation::LIST_AUDIT_EVENTS);
    let (since, until) = call.after_permission(check, period(&query)).await?;
    let request = call.request(ListAuditEventsRequest {
        actor: query.filter("actor"),
        target: query.filter("target"),
        action: query.filter("action"),
        since,
        until,
        page: page.number,
        page_size: page.size,
    });
    let response = call.clients.administration().list_audit_events(request).await?.into_inner();
    let events = response.events.into_iter().map(AuditEvent::new).collect::<Result<Vec<_>, _>>()?;
    Ok(json::page(events, query.headers(page, response.total_count, &call.links)))
}

/// Returns the times `since` and `until` of the query.
///
/// # Errors
/// 422 with every malformed time.
fn period(query: &Query) -> Result<(Option<Timestamp>, Option<Timestamp>), ApiError> {
    let mut errors = Vec::new();
    let period = (value(query.time("since"), &mut errors), value(query.time("until"), &mut errors));
    if errors.is_empty() { Ok(period) } else { Err(ApiError::invalid(errors)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_has_two_times_or_every_mistake_in_them() {
        let (since, until) =
            period(&Query::new("/", "since=2026-01-02T03:04:05+02:00&until=2026-01-02T01:04:05.5Z")).unwrap();
        assert_eq!(since, Some(Timestamp { seconds: 1_767_315_845, nanos: 0 }));
        assert_eq!(until, Some(Timestamp { seconds: 1_767_315_845, nanos: 500_000_000 }));
        assert_eq!(period(&Query::new("/", "since=&x=1")).unwrap(), (None, None));
        let error = period(&Query::new("/", "since=now&until=2026-01-02")).unwrap_err();
        assert_eq!(error.status.as_u16(), 422);
    }
}
