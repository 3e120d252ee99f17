use std::future::Future;

use ferrite_proto::error::{FieldViolation, Kind, ServiceError, to_status};
use ferrite_proto::events::{DeliverRequest, DeliverResponse, Event};
use tonic::{Request, Status};

use super::inbox::first_seen;
use crate::auth::{AuthError, Caller};
use crate::db::{Db, DbError, Tx};

const MAX_EVENTS: usize = 64;
/// A UUID has 36.
const MAX_ID_BYTES: usize = 64;

/// Why a delivery is refused.
#[derive(Debug, thiserror::Error)]
pub enum DeliveryError {
    /// The caller is none of Ferrite's processes.
    #[error(transparent)]
    Auth(#[from] AuthError),
    /// There are too many events, or some that cannot be applied.
    #[error("events are not valid")]
    Invalid(Vec<FieldViolation>),
    /// The database failed; nothing was applied.
    #[error("storage failure")]
    Store(#[from] DbError),
}

impl ServiceError for DeliveryError {
    fn kind(&self) -> Kind {
        match self {
            Self::Auth(error) => error.kind(),
            Self::Invalid(_) => Kind::InvalidArgument,
            Self::Store(_) => Kind::Internal,
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Auth(error) => error.reason(),
            Self::Invalid(_) => "INVALID_EVENTS",
            Self::Store(_) => "INTERNAL",
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
            tracing::error!(error = cause as &dyn std::error::Error, "events could not be applied");
        }
        to_status(&error)
    }
}

/// What a service does when it learns of a fact.
pub trait Apply: Sync {
    /// Does in `tx` what `event` asks for. Called once for every event, however often it is delivered.
    fn apply(&self, tx: &mut Tx, event: &Event, now_us: i64) -> impl Future<Output = Result<(), DbError>> + Send;
}

/// Answers a delivery: applies its new events in one transaction, or none of them.
///
/// # Errors
/// When the caller is no service, an event cannot be applied, or the database fails.
pub async fn deliver<A: Apply>(
    service: &A,
    db: &Db,
    now_us: i64,
    request: Request<DeliverRequest>,
) -> Result<DeliverResponse, DeliveryError> {
    let events = delivered(request)?;
    let mut tx = db.begin().await?;
    for event in &events {
        if first_seen(&mut tx, event, now_us).await? {
            service.apply(&mut tx, event, now_us).await?;
        }
    }
    tx.commit().await?;
    Ok(DeliverResponse {})
}

/// The events of a delivery, for a service that cannot apply them in one transaction.
///
/// # Errors
/// When the caller is no service, there are too many events, or one cannot be applied by this version.
pub fn delivered(request: Request<DeliverRequest>) -> Result<Vec<Event>, DeliveryError> {
    Caller::of(&request).require_service()?;
    let events = request.into_inner().events;
    let violations = check(&events);
    if violations.is_empty() { Ok(events) } else { Err(DeliveryError::Invalid(violations)) }
}

fn check(events: &[Event]) -> Vec<FieldViolation> {
    if events.len() > MAX_EVENTS {
        return vec![FieldViolation::new("events", "too_long", format!("must be at most {MAX_EVENTS}"))];
    }
    let mut violations = Vec::new();
    for (index, event) in events.iter().enumerate() {
        let field = |name| format!("events[{index}].{name}");
        if !is_id(&event.event_id) {
            violations.push(FieldViolation::new(field("event_id"), "invalid", "must be a UUID"));
        }
        if event.repository_id < 1 {
            violations.push(FieldViolation::new(field("repository_id"), "invalid", "must be at least 1"));
        }
        if event.fact.is_none() {
            violations.push(FieldViolation::new(field("fact"), "unknown", "is not known to this version"));
        }
    }
    violations
}

fn is_id(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= MAX_ID_BYTES
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}
