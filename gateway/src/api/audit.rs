use axum::extract::State;
use axum::response::Response;
use ferrite_proto::repo::ListAuditEventsRequest;
use prost_types::Timestamp;

use super::access::Attempt;
use super::operation;
use crate::auth::Signed;
use crate::dto::AuditEvent;
use crate::http::body::{RFC_3339, timestamp};
use crate::http::error::{ApiError, FieldError};
use crate::http::json;
use crate::http::page::{AUDIT, Query};
use crate::http::routes::routes;
use crate::state::Gateway;

routes! { Gateway:
    "/api/v1/admin/audit" => get list as operation::LIST_AUDIT_EVENTS;
}

async fn list(State(gateway): State<Gateway>, Signed(call): Signed, query: Query) -> Result<Response, ApiError> {
    let page = query.page(AUDIT);
    let (since, until) = match period(&query) {
        Ok(period) => period,
        Err(error) => return Err(gateway.refusal(&call, Attempt::of(operation::LIST_AUDIT_EVENTS), error).await),
    };
    let request = call.request(ListAuditEventsRequest {
        actor: query.filter("actor"),
        target: query.filter("target"),
        action: query.filter("action"),
        since,
        until,
        page: page.number,
        page_size: page.size,
    });
    let answer = gateway.clients.administration().list_audit_events(request).await?.into_inner();
    let events = answer.events.into_iter().map(AuditEvent::new).collect::<Result<Vec<_>, _>>()?;
    Ok(json::page(events, query.headers(page, answer.total_count, &gateway.links)))
}

/// The times of the query. All mistakes are told at once.
fn period(query: &Query) -> Result<(Option<Timestamp>, Option<Timestamp>), ApiError> {
    let mut errors = Vec::new();
    let mut time = |name: &str| {
        let text = query.text(name).filter(|text| !text.is_empty())?;
        // A plus that was not encoded arrives as a blank.
        let time = timestamp(&text.replace(' ', "+"));
        if time.is_none() {
            errors.push(FieldError { field: name.to_owned(), code: "invalid".into(), message: RFC_3339.to_owned() });
        }
        time
    };
    let period = (time("since"), time("until"));
    if errors.is_empty() { Ok(period) } else { Err(ApiError::invalid(errors)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_any_offset_and_their_plus_may_be_a_blank() {
        let (since, until) =
            period(&Query::new("/", "since=2026-01-02T03:04:05+02:00&until=2026-01-02T01:04:05.5Z")).unwrap();
        assert_eq!(since, Some(Timestamp { seconds: 1_767_315_845, nanos: 0 }));
        assert_eq!(until, Some(Timestamp { seconds: 1_767_315_845, nanos: 500_000_000 }));
        assert_eq!(period(&Query::new("/", "since=&x=1")).unwrap(), (None, None));
    }

    #[test]
    fn a_malformed_time_names_its_parameter() {
        for wrong in ["2026-01-02", "now", "2026-13-02T00:00:00Z", "2026-01-02T00:00:00", "1767315845", "%00"] {
            let error = period(&Query::new("/", &format!("until={wrong}"))).unwrap_err();
            assert_eq!(error.status.as_u16(), 422, "{wrong}");
        }
    }
}
