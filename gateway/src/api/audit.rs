//! The audit log, for administrators of the site.

use axum::extract::State;
use axum::response::Response;
use ferrite_proto::repo::ListAuditEventsRequest;
use prost_types::Timestamp;

use super::access::PermissionCheck;
use super::operation;
use super::state::ApiState;
use super::tracker::value;
use crate::auth::Authenticated;
use crate::dto::AuditEvent;
use crate::http::error::ApiError;
use crate::http::json;
use crate::http::page::PageLimits;
use crate::http::query::Query;
use crate::http::routes::routes;

routes! { ApiState:
    "/api/v1/admin/audit" => get list as operation::LIST_AUDIT_EVENTS;
}

async fn list(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    query: Query,
) -> Result<Response, ApiError> {
    let page = query.page(PageLimits::AUDIT_LOG);
    let (since, until) = match period(&query) {
        Ok(period) => period,
        Err(error) => {
            return Err(api
                .prefer_permission_error(&context, PermissionCheck::of(operation::LIST_AUDIT_EVENTS), error)
                .await);
        }
    };
    let request = context.request(ListAuditEventsRequest {
        actor: query.filter("actor"),
        target: query.filter("target"),
        action: query.filter("action"),
        since,
        until,
        page: page.number,
        page_size: page.size,
    });
    let answer = api.clients.administration().list_audit_events(request).await?.into_inner();
    let events = answer.events.into_iter().map(AuditEvent::new).collect::<Result<Vec<_>, _>>()?;
    Ok(json::page(events, query.headers(page, answer.total_count, &api.links)))
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
