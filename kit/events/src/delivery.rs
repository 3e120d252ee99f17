//! The receiving side of events: checks a delivery and applies each event once.

use std::collections::HashSet;
use std::future::Future;

use ferrite_core::telemetry;
use ferrite_db::{Db, DbError, Query, Tx, args};
use ferrite_proto::callers::emitter;
use ferrite_proto::error::{FieldViolation, Kind, ServiceError, to_status};
use ferrite_proto::events::event::Fact;
use ferrite_proto::events::{DeliverRequest, DeliverResponse, Event};
use ferrite_rpc::auth::{AuthError, Caller};
use tonic::{Request, Status};
use tracing::{Instrument, Span};

use super::event::kind;

const MAX_EVENTS: usize = 64;
/// A UUID has 36 bytes.
const MAX_EVENT_ID_BYTES: usize = 64;

/// Why a delivery failed.
#[derive(Debug, thiserror::Error)]
pub enum DeliveryError {
    /// The caller is not a Ferrite process, or may not emit these events.
    #[error(transparent)]
    Auth(#[from] AuthError),
    /// There are too many events, or some are malformed or of an unknown kind.
    #[error("invalid request")]
    Invalid(Vec<FieldViolation>),
    /// The database failed. No event was applied.
    #[error("{}", .0.message())]
    Store(#[from] DbError),
}

impl ServiceError for DeliveryError {
    fn classify(&self) -> (Kind, &'static str) {
        match self {
            Self::Auth(error) => error.classify(),
            Self::Invalid(_) => (Kind::InvalidArgument, "INVALID_EVENTS"),
            Self::Store(error) => error.classify(),
        }
    }

    fn domain(&self) -> &'static str {
        match self {
            Self::Auth(error) => error.domain(),
            Self::Invalid(_) | Self::Store(_) => "events",
        }
    }

    fn violations(&self) -> Vec<FieldViolation> {
        match self {
            Self::Invalid(violations) => violations.clone(),
            Self::Auth(_) | Self::Store(_) => Vec::new(),
        }
    }
}

impl From<DeliveryError> for Status {
    fn from(error: DeliveryError) -> Self {
        if let DeliveryError::Store(cause) = &error {
            cause.log("applying events");
        }
        to_status(&error)
    }
}

/// The effects of events on a service.
pub trait Apply: Sync {
    /// Applies `event` in `tx`. Called once per event, however often it is delivered.
    fn apply(&self, tx: &mut Tx, event: &Event, now_us: i64) -> impl Future<Output = Result<(), DbError>> + Send;

    /// Completes a delivery in `tx` after its events are applied: for rows that several of them
    /// change.
    fn finish(&self, _tx: &mut Tx) -> impl Future<Output = Result<(), DbError>> + Send {
        std::future::ready(Ok(()))
    }
}

/// Handles a delivery: applies its new events in one transaction, all or none.
///
/// # Errors
/// [`DeliveryError::Auth`] if the caller may not emit these events, [`DeliveryError::Invalid`] if
/// there are too many events or one is invalid.
pub async fn deliver<A: Apply>(
    service: &A,
    db: &Db,
    now_us: i64,
    request: Request<DeliverRequest>,
) -> Result<DeliverResponse, DeliveryError> {
    let events = delivered(request)?;
    let mut tx = db.begin().await?;
    let mut new = record(&mut tx, &events, now_us).await?;
    for event in &events {
        if new.remove(&event.event_id) {
            service.apply(&mut tx, event, now_us).instrument(apply_span(event)).await?;
        }
    }
    service.finish(&mut tx).await?;
    tx.commit().await?;
    Ok(DeliverResponse {})
}

/// Records that `event` is applied, in the transaction. Returns whether this is the first time;
/// otherwise the caller must not apply it again.
///
/// # Errors
/// If the database fails.
pub async fn first_seen(tx: &mut Tx, event: &Event, now_us: i64) -> Result<bool, DbError> {
    Ok(!record(tx, std::slice::from_ref(event), now_us).await?.is_empty())
}

/// Like [`first_seen`], for several events in one statement. Returns the ids of the new ones.
pub(super) async fn record(tx: &mut Tx, events: &[Event], now_us: i64) -> Result<HashSet<String>, DbError> {
    let Some(last) = events.last() else { return Ok(HashSet::new()) };
    let mut query = Query::new("INSERT INTO inbox (event_id, repository_id, kind, received_us) VALUES ");
    // Repeats the last event, without effect, up to a power of two, so that few different
    // statements are prepared.
    let repeated = std::iter::repeat_n(last, events.len().next_power_of_two() - events.len());
    let row = |event: &Event| args![&event.event_id, event.repository_id, kind(event), now_us];
    query.bind_rows(events.iter().chain(repeated).map(row)).push(" ON CONFLICT DO NOTHING");
    if let [event] = events {
        // Use the number of rows: SQLite would first collect returned rows in a temporary table.
        let is_new = tx.execute(query.sql(), query.args()).await? > 0;
        return Ok(is_new.then(|| event.event_id.clone()).into_iter().collect());
    }
    query.push(" RETURNING event_id");
    let new: Vec<(String,)> = tx.all(query.sql(), query.args()).await?;
    Ok(new.into_iter().map(|(event_id,)| event_id).collect())
}

/// Returns the span of an event's effects, in the trace of the request that caused the event.
/// Disabled outside a sampled trace.
#[must_use]
pub fn apply_span(event: &Event) -> Span {
    telemetry::continued_span(kind(event), "consumer", &event.trace_parent)
}

/// Returns the checked events of a delivery, for a service that cannot apply them in one
/// transaction.
///
/// # Errors
/// [`DeliveryError::Auth`] if the caller may not emit these events, [`DeliveryError::Invalid`] if
/// there are too many events or one is invalid.
pub fn delivered(request: Request<DeliverRequest>) -> Result<Vec<Event>, DeliveryError> {
    let role = Caller::of(&request).require_service()?;
    let events = request.into_inner().events;
    if events.iter().filter_map(|event| event.fact.as_ref()).any(|fact| emitter(fact) != role) {
        tracing::warn!(caller = %role, "rejected events that the caller may not emit");
        metrics::counter!("ferrite_service_calls_refused_total", "caller" => role.as_str()).increment(1);
        return Err(AuthError::ServiceNotPermitted { role }.into());
    }
    let violations = check(&events);
    if violations.is_empty() { Ok(events) } else { Err(DeliveryError::Invalid(violations)) }
}

fn check(events: &[Event]) -> Vec<FieldViolation> {
    if events.len() > MAX_EVENTS {
        return vec![FieldViolation::new("events", "too_long", format!("must have at most {MAX_EVENTS} events"))];
    }
    let mut violations = Vec::new();
    for (index, event) in events.iter().enumerate() {
        let field = |name| format!("events[{index}].{name}");
        if !is_event_id(&event.event_id) {
            violations.push(FieldViolation::new(field("event_id"), "invalid", "must be a UUID"));
        }
        // Organizations and their webhooks, and those of the site, belong to no repository.
        let is_of_none = matches!(event.fact, Some(Fact::HookChanged(_) | Fact::OrganizationDeleted(_)));
        let min = if is_of_none { 0 } else { 1 };
        if event.repository_id < min {
            violations.push(FieldViolation::new(field("repository_id"), "invalid", format!("must be at least {min}")));
        }
        if event.fact.is_none() {
            violations.push(FieldViolation::new(field("fact"), "unknown", "is unknown to this version"));
        }
    }
    violations
}

fn is_event_id(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= MAX_EVENT_ID_BYTES
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}
