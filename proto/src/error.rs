//! Kinds of errors, their gRPC codes, and their form on the wire. The gateway derives HTTP statuses
//! from the gRPC codes.

use std::collections::HashMap;
use std::time::Duration;

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

// A status is sent in HTTP/2 headers, which a peer rejects beyond 16 KiB. The limits keep names
// from clients within that.
const MAX_MESSAGE_BYTES: usize = 512;
const MAX_FIELD_BYTES: usize = 128;
/// The longest is the name of a branch.
const MAX_DETAIL_BYTES: usize = 1000;
const MAX_DESCRIPTION_BYTES: usize = 256;
const MAX_VIOLATIONS: usize = 16;

/// The kind of an error. It decides the gRPC code, and in the gateway the HTTP status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The request is malformed or breaks a rule. The error has the fields.
    InvalidArgument,
    /// The object does not exist, or the caller may not know that it does.
    NotFound,
    /// The name is in use.
    AlreadyExists,
    /// The caller is authenticated but lacks the permission.
    PermissionDenied,
    /// The caller is not authenticated.
    Unauthenticated,
    /// A concurrent change came first, or a precondition of the request no longer holds.
    Aborted,
    /// Another state must change first.
    FailedPrecondition,
    /// The caller exceeds a rate limit.
    RateLimited,
    /// The requested or sent object is too large.
    TooLarge,
    /// The service has no capacity now. The same call may succeed later.
    Overloaded,
    /// A fault of the service. Its cause is logged, never sent.
    Internal,
}

impl Kind {
    /// Returns the gRPC code of this kind.
    #[must_use]
    pub fn code(self) -> Code {
        match self {
            Self::InvalidArgument => Code::InvalidArgument,
            Self::NotFound => Code::NotFound,
            Self::AlreadyExists => Code::AlreadyExists,
            Self::PermissionDenied => Code::PermissionDenied,
            Self::Unauthenticated => Code::Unauthenticated,
            Self::Aborted => Code::Aborted,
            Self::FailedPrecondition => Code::FailedPrecondition,
            Self::RateLimited => Code::ResourceExhausted,
            Self::TooLarge => Code::OutOfRange,
            Self::Overloaded => Code::Unavailable,
            Self::Internal => Code::Internal,
        }
    }
}

/// An invalid field of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldViolation {
    /// Name of the field in the contract, such as `name` or `config.url`.
    pub field: String,
    /// Code of the violation, for programs: `required`, `invalid`, `too_long`, `too_short`,
    /// `too_many`, `taken`, `unknown`, `no_access`, `reserved`, `type`.
    pub code: &'static str,
    /// Description of the violation, for people.
    pub message: String,
}

impl FieldViolation {
    /// Returns a violation of `field`.
    pub fn new(field: impl Into<String>, code: &'static str, message: impl Into<String>) -> Self {
        Self { field: field.into(), code, message: message.into() }
    }
}

/// Returns the message of an error with these violations: the first one, after its field.
#[must_use]
pub fn first_violation(violations: &[FieldViolation]) -> String {
    violations.first().map_or_else(
        || "invalid request".to_owned(),
        |violation| format!("`{}`: {}", violation.field, violation.message),
    )
}

/// An error that a service returns to callers, with a kind and a stable reason.
pub trait ServiceError: std::error::Error + Send + Sync + 'static {
    /// Returns the kind and the reason, in `UPPER_SNAKE_CASE`. Clients branch on the reason, so it
    /// never changes its meaning.
    fn classify(&self) -> (Kind, &'static str);

    /// Returns the kind.
    fn kind(&self) -> Kind {
        self.classify().0
    }

    /// Returns the reason.
    fn reason(&self) -> &'static str {
        self.classify().1
    }

    /// Returns the service's part of the error domain, such as `repo`.
    fn domain(&self) -> &'static str;

    /// Returns the invalid fields, for [`Kind::InvalidArgument`].
    fn violations(&self) -> Vec<FieldViolation> {
        Vec::new()
    }

    /// Returns when the same call may succeed, for [`Kind::RateLimited`], [`Kind::Overloaded`] and
    /// [`Kind::Aborted`].
    fn retry_after(&self) -> Option<Duration> {
        None
    }

    /// Returns further details for programs, by name. Only a few short ones: they travel in the
    /// headers of the status.
    fn details(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

/// Converts `error` to a gRPC status. For [`Kind::Internal`] it only says "internal error": the
/// caller must have logged the cause.
pub fn to_status(error: &dyn ServiceError) -> Status {
    let (kind, reason) = error.classify();
    let message = if kind == Kind::Internal { "internal error".to_owned() } else { error.to_string() };
    let message = clip(&message, MAX_MESSAGE_BYTES);
    let mut details = ErrorDetails::new();
    let facts = error.details().into_iter().map(|(name, value)| (name.to_owned(), clip(&value, MAX_DETAIL_BYTES)));
    details.set_error_info(reason, format!("{}.ferrite", error.domain()), facts.collect::<HashMap<_, _>>());
    // An internal error has no invalid fields.
    let violations = if kind == Kind::Internal { Vec::new() } else { error.violations() };
    if !violations.is_empty() {
        details.set_bad_request(Vec::new());
        for violation in violations.into_iter().take(MAX_VIOLATIONS) {
            // google.rpc.BadRequest has no field for a code, so the description starts with it.
            let description = format!("{}: {}", violation.code, violation.message);
            details.add_bad_request_violation(
                clip(&violation.field, MAX_FIELD_BYTES),
                clip(&description, MAX_DESCRIPTION_BYTES),
            );
        }
    }
    if let Some(after) = error.retry_after() {
        details.set_retry_info(Some(after));
    }
    Status::with_error_details(kind.code(), message, details)
}

/// Cuts `text` to at most `max_bytes` of whole characters.
fn clip(text: &str, max_bytes: usize) -> String {
    text[..text.floor_char_boundary(max_bytes)].to_owned()
}

/// Returns the reason in a status; `None` if the status is not from a Ferrite service.
#[must_use]
pub fn reason(status: &Status) -> Option<String> {
    let info = status.get_details_error_info()?;
    info.domain.ends_with(".ferrite").then_some(info.reason)
}

/// Returns a detail of a status by name (see [`ServiceError::details`]), if it is there.
#[must_use]
pub fn detail(status: &Status, name: &str) -> Option<String> {
    let mut info = status.get_details_error_info()?;
    if info.domain.ends_with(".ferrite") { info.metadata.remove(name) } else { None }
}

/// Returns the field violations of a status: field, code and message.
#[must_use]
pub fn violations(status: &Status) -> Vec<(String, String, String)> {
    let Some(bad) = status.get_details_bad_request() else { return Vec::new() };
    bad.field_violations
        .into_iter()
        .map(|violation| match violation.description.split_once(": ") {
            Some((code, message)) => (violation.field, code.to_owned(), message.to_owned()),
            None => (violation.field, "invalid".to_owned(), violation.description),
        })
        .collect()
}

#[cfg(test)]
mod tests;
