//! The fields of requests about deliveries.

use ferrite_proto::error::FieldViolation;
use ferrite_proto::hook::{DeliveryStatus, ListDeliveriesRequest};
use prost_types::Timestamp;
use uuid::Uuid;

use crate::error::HookError;
use crate::model::HookEvents;
use crate::store::deliveries::{Filter, Status};

/// Name of the event that tests of hooks without a commit send. It cannot be chosen for a hook.
pub(super) const PING_EVENT: &str = "ping";

/// Returns the filter of a list.
///
/// # Errors
/// The fields that are not valid.
pub(super) fn filter(request: &ListDeliveriesRequest) -> Result<Filter, Vec<FieldViolation>> {
    let mut violations = Vec::new();
    let status = match DeliveryStatus::try_from(request.status) {
        Ok(DeliveryStatus::Unspecified) => None,
        Ok(DeliveryStatus::Pending) => Some(Status::Pending),
        Ok(DeliveryStatus::Retrying) => Some(Status::Retrying),
        Ok(DeliveryStatus::Succeeded) => Some(Status::Succeeded),
        Ok(DeliveryStatus::Exhausted) => Some(Status::Exhausted),
        Ok(DeliveryStatus::Cancelled) => Some(Status::Cancelled),
        Err(_) => {
            violations.push(FieldViolation::new("status", "unknown", "must be a status of deliveries"));
            None
        }
    };
    let event = Some(request.event.clone()).filter(|event| !event.is_empty());
    if let Some(event) = event.as_deref().filter(|event| *event != PING_EVENT)
        && let Err(violation) = HookEvents::parse(&[event])
    {
        violations.push(FieldViolation::new("event", violation.code, violation.message));
    }
    let since_us = request.since_time.as_ref().map(|time| micros(time, "since", &mut violations));
    let until_us = request.until_time.as_ref().map(|time| end_us(time, "until", &mut violations));
    if violations.is_empty() { Ok(Filter { status, event, since_us, until_us }) } else { Err(violations) }
}

/// Returns the times of a replay.
///
/// # Errors
/// The fields that are absent or not valid.
pub(super) fn range(from: Option<&Timestamp>, to: Option<&Timestamp>) -> Result<(i64, i64), Vec<FieldViolation>> {
    let mut violations = Vec::new();
    for (time, field) in [(from, "from"), (to, "to")] {
        if time.is_none() {
            violations.push(FieldViolation::new(field, "required", "is required"));
        }
    }
    let from_us = from.map_or(0, |time| micros(time, "from", &mut violations));
    let to_us = to.map_or(0, |time| end_us(time, "to", &mut violations));
    if violations.is_empty() && from_us > to_us {
        violations.push(FieldViolation::new("to", "invalid", "must not be before `from`"));
    }
    if violations.is_empty() { Ok((from_us, to_us)) } else { Err(violations) }
}

/// Returns the UUID of a delivery as it is stored.
///
/// # Errors
/// [`HookError::DeliveryNotFound`] for a text that is no UUID.
pub(super) fn uuid(text: &str) -> Result<String, HookError> {
    Uuid::try_parse(text).map(|uuid| uuid.to_string()).map_err(|_| HookError::DeliveryNotFound)
}

/// Returns the end of the times that `time` means: one without a fraction, as responses have it, means the whole second.
fn end_us(time: &Timestamp, field: &str, violations: &mut Vec<FieldViolation>) -> i64 {
    let begin_us = micros(time, field, violations);
    if time.nanos == 0 { begin_us.saturating_add(999_999) } else { begin_us }
}

/// Returns the microseconds since 1970.
fn micros(time: &Timestamp, field: &str, violations: &mut Vec<FieldViolation>) -> i64 {
    let micros = time.seconds.checked_mul(1_000_000);
    let micros = micros.and_then(|micros| micros.checked_add(i64::from(time.nanos) / 1000));
    micros.unwrap_or_else(|| {
        violations.push(FieldViolation::new(field, "invalid", "must be a time"));
        0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_that_is_wrong_is_named() {
        let far = Some(Timestamp { seconds: i64::MAX, nanos: 0 });
        let request = ListDeliveriesRequest {
            status: 9,
            event: "pushes".to_owned(),
            since_time: far,
            until_time: far,
            ..Default::default()
        };
        let fields: Vec<_> = filter(&request).unwrap_err().into_iter().map(|violation| violation.field).collect();
        assert_eq!(fields, ["status", "event", "since", "until"]);
        let fields: Vec<_> = range(None, None).unwrap_err().into_iter().map(|violation| violation.field).collect();
        assert_eq!(fields, ["from", "to"]);
        let time = |seconds| Timestamp { seconds, nanos: 5_000 };
        assert_eq!(range(Some(&time(2)), Some(&time(1))).unwrap_err()[0].field, "to");
        assert_eq!(range(Some(&time(1)), Some(&time(1))).unwrap(), (1_000_005, 1_000_005));
        let second = Timestamp { seconds: 1, nanos: 0 };
        assert_eq!(range(Some(&second), Some(&second)).unwrap(), (1_000_000, 1_999_999));
        assert!(filter(&ListDeliveriesRequest { event: "ping".to_owned(), ..Default::default() }).is_ok());
    }
}
