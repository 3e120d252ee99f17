//! Deliveries and attempts as responses have them.

use ferrite_kit::timestamp;
use ferrite_proto::hook::{self, DeliveryStatus, Header};

use crate::error::HookError;
use crate::store::attempts;
use crate::store::deliveries::{self, Status};

/// Encodes a delivery.
///
/// # Errors
/// [`HookError::Unreadable`] for a status that is not known.
pub(super) fn delivery(row: deliveries::Delivery) -> Result<hook::Delivery, HookError> {
    let status = Status::from_column(row.status).ok_or(HookError::Unreadable { id: row.hook_id, column: "status" })?;
    let status = match status {
        Status::Pending => DeliveryStatus::Pending,
        Status::Retrying => DeliveryStatus::Retrying,
        Status::Succeeded => DeliveryStatus::Succeeded,
        Status::Exhausted => DeliveryStatus::Exhausted,
        Status::Cancelled => DeliveryStatus::Cancelled,
    };
    Ok(hook::Delivery {
        id: row.uuid,
        hook_id: row.hook_id,
        event: row.event,
        status: status.into(),
        attempt_count: number(Some(row.attempts)),
        response_status: number(row.response_status),
        duration_ms: number(row.duration_ms),
        repository_id: row.repository_id,
        create_time: Some(timestamp(row.created_us)),
        next_attempt_time: row.next_attempt_us.map(timestamp),
        finish_time: row.finished_us.map(timestamp),
    })
}

/// Encodes an attempt.
pub(super) fn attempt(row: attempts::Attempt) -> hook::Attempt {
    hook::Attempt {
        number: number(Some(row.number)),
        start_time: Some(timestamp(row.started_us)),
        duration_ms: number(Some(row.duration_ms)),
        url: row.shown_url,
        request_headers: headers(&row.request_headers),
        request_body: row.request_body.unwrap_or_default(),
        is_request_cut: row.is_request_cut,
        response_status: number(row.response_status),
        response_headers: headers(row.response_headers.as_deref().unwrap_or("[]")),
        response_body: row.response_body.unwrap_or_default(),
        is_response_cut: row.is_response_cut,
        error: row.error.unwrap_or_default(),
    }
}

fn number(value: Option<i64>) -> i32 {
    i32::try_from(value.unwrap_or(0)).unwrap_or(i32::MAX)
}

/// Parses the pairs that the sender has written.
fn headers(json: &str) -> Vec<Header> {
    let pairs: Vec<(String, String)> = serde_json::from_str(json).unwrap_or_else(|error| {
        tracing::error!(%error, "the headers of an attempt cannot be read");
        Vec::new()
    });
    pairs.into_iter().map(|(name, value)| Header { name, value }).collect()
}
