//! The one table from kinds of failure to gRPC codes, and the form failures take on the wire.

use std::time::Duration;

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

// A status travels in HTTP/2 headers, which a peer refuses beyond 16 KiB: a name that a client sent is not to break the answer.
const MESSAGE_BYTES: usize = 512;
const FIELD_BYTES: usize = 128;
const DESCRIPTION_BYTES: usize = 256;
const MAX_VIOLATIONS: usize = 16;

/// What sort of failure it is: decides the gRPC code, and in the gateway the HTTP status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The request is malformed or breaks a rule; it names the fields.
    InvalidArgument,
    /// It does not exist, or the caller may not know that it does.
    NotFound,
    /// The name is taken.
    AlreadyExists,
    /// The caller is known and may not.
    PermissionDenied,
    /// The caller is not known.
    Unauthenticated,
    /// A race was lost or a precondition of the caller's went stale.
    Aborted,
    /// Something else has to change first.
    FailedPrecondition,
    /// The caller asks too often.
    RateLimited,
    /// The thing asked for, or sent, is larger than allowed.
    TooLarge,
    /// The service has no room for this now; the same call may succeed later.
    Overloaded,
    /// A fault of ours. Its cause is logged, never sent.
    Internal,
}

impl Kind {
    /// The gRPC code that stands for this kind.
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

/// One field of a request that was refused, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldViolation {
    /// The field's name in the contract, such as `name` or `config.url`.
    pub field: String,
    /// What is wrong with it, for programs: `required`, `invalid`, `too_long`, `too_short`, `unknown`, `reserved`, `type`.
    pub code: &'static str,
    /// What is wrong with it, for people.
    pub message: String,
}

impl FieldViolation {
    /// A refusal of `field`.
    pub fn new(field: impl Into<String>, code: &'static str, message: impl Into<String>) -> Self {
        Self { field: field.into(), code, message: message.into() }
    }
}

/// A service's public failure: every variant has a kind and a stable reason.
pub trait ServiceError: std::error::Error + Send + Sync + 'static {
    /// What sort of failure it is.
    fn kind(&self) -> Kind;

    /// UPPER_SNAKE, never reused: clients branch on it.
    fn reason(&self) -> &'static str;

    /// The service's part of the error domain, such as `repo`.
    fn domain(&self) -> &'static str;

    /// The fields at fault, for [`Kind::InvalidArgument`].
    fn violations(&self) -> Vec<FieldViolation> {
        Vec::new()
    }

    /// When the same call may succeed, for [`Kind::RateLimited`] and [`Kind::Overloaded`].
    fn retry_after(&self) -> Option<Duration> {
        None
    }
}

/// The status that carries `error` to the caller.
///
/// [`Kind::Internal`] says "internal error" and nothing else; its cause is logged here, once.
pub fn to_status(error: &dyn ServiceError) -> Status {
    let kind = error.kind();
    let message = if kind == Kind::Internal { "internal error".to_owned() } else { error.to_string() };
    let message = clip(&message, MESSAGE_BYTES);
    let mut details = ErrorDetails::new();
    details.set_error_info(error.reason(), format!("{}.ferrite", error.domain()), std::collections::HashMap::new());
    // A fault of ours is no field's.
    let violations = if kind == Kind::Internal { Vec::new() } else { error.violations() };
    if !violations.is_empty() {
        details.set_bad_request(Vec::new());
        for violation in violations.into_iter().take(MAX_VIOLATIONS) {
            // google.rpc.BadRequest has room for a description only: the code goes in front of it.
            let description = format!("{}: {}", violation.code, violation.message);
            details
                .add_bad_request_violation(clip(&violation.field, FIELD_BYTES), clip(&description, DESCRIPTION_BYTES));
        }
    }
    if let Some(after) = error.retry_after() {
        details.set_retry_info(Some(after));
    }
    Status::with_error_details(kind.code(), message, details)
}

/// The start of `text`, at most `limit` bytes of whole characters.
fn clip(text: &str, limit: usize) -> String {
    text[..text.floor_char_boundary(limit)].to_owned()
}

/// The reason a status of ours carries, if it is one of ours.
#[must_use]
pub fn reason(status: &Status) -> Option<String> {
    let info = status.get_details_error_info()?;
    info.domain.ends_with(".ferrite").then_some(info.reason)
}

/// The field violations a status carries: field, code and message.
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
