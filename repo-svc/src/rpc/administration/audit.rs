//! The audit log, filtered by actor, target, action and time.

use ferrite_core::page::Page;
use ferrite_core::timestamp;
use ferrite_proto::error::FieldViolation;
use ferrite_proto::repo::{AuditEvent, ListAuditEventsRequest, ListAuditEventsResponse};
use tonic::Request;

use crate::error::RepoError;
use crate::model::{Violations, check_length, refuse_nul};
use crate::rpc::authorized::Authorized;
use crate::state::AppState;
use crate::store::{AuditFilter, AuditRow};

const MAX_PAGE_SIZE: i32 = 100;
/// Maximum length of a filter. No name is that long.
const MAX_FILTER_CHARS: usize = 255;

pub(super) async fn list_audit_events(
    state: &AppState,
    _: Authorized,
    request: Request<ListAuditEventsRequest>,
) -> Result<ListAuditEventsResponse, RepoError> {
    let request = request.into_inner();
    let page = Page::nearest(request.page, request.page_size, MAX_PAGE_SIZE);
    let (rows, total_count) = state.audit.list(&filter(&request)?, page).await?;
    Ok(ListAuditEventsResponse { events: rows.into_iter().map(encode).collect(), total_count })
}

fn filter(request: &ListAuditEventsRequest) -> Result<AuditFilter, RepoError> {
    let mut violations = Violations::default();
    let actor = violations.take(text(&request.actor, "actor"));
    let target = violations.take(text(&request.target, "target"));
    let action = violations.take(text(&request.action, "action"));
    let since = request.since.as_ref().map(|time| micros(time.seconds, time.nanos, "since")).transpose();
    let until = request.until.as_ref().map(|time| micros(time.seconds, time.nanos, "until")).transpose();
    match (actor, target, action, violations.take(since), violations.take(until)) {
        (Some(actor), Some(target), Some(action), Some(since_us), Some(until_us)) => Ok(AuditFilter {
            actor_key: actor.map(str::to_lowercase),
            target_key: target.map(str::to_lowercase),
            action: action.map(str::to_owned),
            since_us,
            until_us,
        }),
        _ => Err(violations.into_error()),
    }
}

/// Returns `None` for an empty text, which does not filter.
fn text<'a>(text: &'a str, field: &str) -> Result<Option<&'a str>, FieldViolation> {
    check_length(text, MAX_FILTER_CHARS, field)?;
    refuse_nul(text, field)?;
    Ok((!text.is_empty()).then_some(text))
}

/// Returns microseconds since 1970, rounded up.
fn micros(seconds: i64, nanos: i32, field: &str) -> Result<i64, FieldViolation> {
    let part = (0..1_000_000_000).contains(&nanos).then(|| i64::from(nanos + 999) / 1_000);
    let whole = seconds.checked_mul(1_000_000);
    let sum = part.zip(whole).and_then(|(part, whole)| whole.checked_add(part));
    sum.ok_or_else(|| FieldViolation::new(field, "invalid", "must be a valid timestamp"))
}

fn encode(row: AuditRow) -> AuditEvent {
    let details = row.details();
    AuditEvent {
        id: row.id,
        time: Some(timestamp(row.time_us)),
        actor_id: row.actor_id,
        actor: row.actor,
        token_id: row.token_id,
        action: row.action,
        target_kind: row.target_kind,
        target_id: row.target_id,
        target: row.target,
        details,
        address: row.address,
        request_id: row.request_id,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rounded_up_and_kept_in_range() {
        assert_eq!(micros(1, 1_000, "since"), Ok(1_000_001));
        assert_eq!(micros(1, 1, "since"), Ok(1_000_001));
        assert_eq!(micros(-1, 999_999_999, "since"), Ok(0));
        for (seconds, nanos) in [(i64::MAX, 0), (i64::MIN, 0), (0, -1), (0, 1_000_000_000), (0, i32::MAX)] {
            assert_eq!(micros(seconds, nanos, "until").unwrap_err().field, "until");
        }
    }
}
