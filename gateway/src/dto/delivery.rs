use std::collections::BTreeMap;

use ferrite_proto::hook::{self, DeliveryStatus, Header};
use serde::Serialize;

use ferrite_api_types::convert::{MissingField, optional_time, text, time};

/// A delivery of a webhook.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Delivery {
    id: String,
    event: String,
    status: &'static str,
    attempts: i32,
    response_status: Option<i32>,
    duration_ms: Option<i32>,
    created_at: String,
    next_attempt_at: Option<String>,
}

impl Delivery {
    pub(crate) fn new(delivery: hook::Delivery) -> Result<Self, MissingField> {
        let status = match delivery.status() {
            DeliveryStatus::Pending => "pending",
            DeliveryStatus::Retrying => "retrying",
            DeliveryStatus::Succeeded => "succeeded",
            DeliveryStatus::Exhausted => "exhausted",
            DeliveryStatus::Cancelled => "cancelled",
            DeliveryStatus::Unspecified => return Err(MissingField("status")),
        };
        let was_tried = delivery.attempt_count > 0;
        Ok(Self {
            id: delivery.id,
            event: delivery.event,
            status,
            attempts: delivery.attempt_count,
            response_status: Some(delivery.response_status).filter(|status| *status > 0),
            duration_ms: Some(delivery.duration_ms).filter(|_| was_tried),
            created_at: time(delivery.create_time, "create_time")?,
            next_attempt_at: optional_time(delivery.next_attempt_time, "next_attempt_time")?,
        })
    }
}

/// A delivery with each of its attempts.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct DeliveryWithAttempts {
    #[serde(flatten)]
    delivery: Delivery,
    log: Vec<Attempt>,
}

#[derive(Clone, Debug, Serialize)]
struct Attempt {
    number: i32,
    started_at: String,
    duration_ms: i32,
    request: Request,
    response: Option<Response>,
    error: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
struct Request {
    url: String,
    headers: BTreeMap<String, String>,
    body: String,
    truncated: bool,
}

#[derive(Clone, Debug, Serialize)]
struct Response {
    status: i32,
    headers: BTreeMap<String, String>,
    body: String,
    truncated: bool,
}

impl DeliveryWithAttempts {
    pub(crate) fn new(delivery: hook::Delivery, attempts: Vec<hook::Attempt>) -> Result<Self, MissingField> {
        let log = attempts.into_iter().map(Attempt::new).collect::<Result<_, _>>()?;
        Ok(Self { delivery: Delivery::new(delivery)?, log })
    }
}

impl Attempt {
    fn new(attempt: hook::Attempt) -> Result<Self, MissingField> {
        let response = (attempt.response_status > 0).then(|| Response {
            status: attempt.response_status,
            headers: headers(attempt.response_headers),
            body: text(&attempt.response_body),
            truncated: attempt.is_response_cut,
        });
        Ok(Self {
            number: attempt.number,
            started_at: time(attempt.start_time, "start_time")?,
            duration_ms: attempt.duration_ms,
            request: Request {
                url: attempt.url,
                headers: headers(attempt.request_headers),
                body: text(&attempt.request_body),
                truncated: attempt.is_request_cut,
            },
            response,
            error: Some(attempt.error).filter(|error| !error.is_empty()),
        })
    }
}

/// Returns headers by name. Values of one name are joined, as HTTP does.
fn headers(headers: Vec<Header>) -> BTreeMap<String, String> {
    let mut by_name: BTreeMap<String, String> = BTreeMap::new();
    for Header { name, value } in headers {
        let values = by_name.entry(name).or_default();
        if !values.is_empty() {
            values.push_str(", ");
        }
        values.push_str(&value);
    }
    by_name
}

/// The number of deliveries that a replay sends.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct ReplayCount {
    pub(crate) count: i64,
}
