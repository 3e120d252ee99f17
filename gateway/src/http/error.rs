//! API errors, and the one table from gRPC codes to HTTP statuses.

use std::borrow::Cow;
use std::time::Duration;

use axum::http::header::{ACCEPT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use ferrite_proto::error::{FieldViolation, detail, reason, violations};
use ferrite_rpc::grpc::is_connection_lost;
use serde::Serialize;
use tonic::{Code, Status};
use tonic_types::StatusExt;

use super::json;
use ferrite_api_types::convert::MissingField;
use ferrite_api_types::links::Links;

/// Challenges of a 401 (RFC 9110, section 11.6.1). For `Basic`, browsers ask their user for a
/// password, which only a few operations take.
const TOKEN_CHALLENGE: HeaderValue = HeaderValue::from_static("Bearer realm=\"Ferrite\"");
const PASSWORD_CHALLENGE: HeaderValue = HeaderValue::from_static("Basic realm=\"Ferrite\"");
/// For missing and hidden repositories.
const REPOSITORY_NOT_FOUND: &str = "repository does not exist";
/// `Retry-After` if the service names no time.
const DEFAULT_RETRY_SECONDS: u64 = 1;
/// Limits the field errors in a response: a small body can cause very many.
const MAX_FIELD_ERRORS: usize = 100;

pub(crate) type ApiResult<T = Response> = Result<T, ApiError>;

/// An error response. [`render`] writes its body, because it needs the address of the
/// documentation.
#[derive(Clone, Debug)]
pub(crate) struct ApiError {
    pub(crate) status: StatusCode,
    message: Cow<'static, str>,
    reason: Option<Cow<'static, str>>,
    errors: Vec<FieldError>,
    retry_after: Option<u64>,
    /// Whether a 401 asks for a password instead of a token.
    asks_for_password: bool,
    /// Whether the body is refused because it is compressed.
    is_compressed: bool,
    moved_to: Option<Box<PresentName>>,
}

/// The current name of a renamed repository or branch, for a request with a former name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PresentName {
    Repository { owner: String, name: String },
    Branch(String),
}

impl PresentName {
    fn of_repository(status: &Status) -> Option<Self> {
        Some(Self::Repository { owner: detail(status, "owner")?, name: detail(status, "name")? })
    }

    fn of_branch(status: &Status) -> Option<Self> {
        detail(status, "branch").map(Self::Branch)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct FieldError {
    pub(crate) field: String,
    pub(crate) code: Cow<'static, str>,
    pub(crate) message: String,
}

impl FieldError {
    pub(crate) fn new(field: &str, code: &'static str, message: impl Into<String>) -> Self {
        Self { field: field.to_owned(), code: code.into(), message: message.into() }
    }

    /// A value is not `expected`, for example `a string`.
    pub(super) fn wrong_type(field: &str, expected: &str) -> Self {
        Self::new(field, "type", format!("must be {expected}"))
    }
}

impl From<FieldViolation> for FieldError {
    fn from(violation: FieldViolation) -> Self {
        Self { field: violation.field, code: violation.code.into(), message: violation.message }
    }
}

impl ApiError {
    pub(crate) fn new(status: StatusCode, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            status,
            message: message.into(),
            reason: None,
            errors: Vec::new(),
            retry_after: None,
            asks_for_password: false,
            is_compressed: false,
            moved_to: None,
        }
    }

    /// Adds the reason that the contracts list for this failure.
    pub(crate) fn because(self, reason: impl Into<Cow<'static, str>>) -> Self {
        Self { reason: Some(reason.into()), ..self }
    }

    pub(crate) fn bad_request(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    pub(crate) fn credentials_required() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "credentials are required").because("CREDENTIALS_REQUIRED")
    }

    /// 401: a token was sent, but only a password is accepted.
    pub(crate) fn password_required() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "a user name and password are required, not a token")
    }

    /// 401: a password was sent, but only a token is accepted.
    pub(crate) fn token_required() -> Self {
        let message =
            "an access token is required, not a password: create one with POST /api/v1/users/{username}/tokens";
        Self::new(StatusCode::UNAUTHORIZED, message)
    }

    pub(crate) fn bad_credentials() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "credentials are not valid").because("BAD_CREDENTIALS")
    }

    pub(crate) fn repository_not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, REPOSITORY_NOT_FOUND).because("REPOSITORY_NOT_FOUND")
    }

    pub(crate) fn not_found(message: &'static str) -> Self {
        Self::new(StatusCode::NOT_FOUND, message)
    }

    pub(crate) fn too_large() -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "request body is too large")
    }

    /// 415: the body has another content coding than `identity`.
    pub(crate) fn compressed() -> Self {
        let message = "content encoding must be identity: send the body uncompressed";
        Self { is_compressed: true, ..Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message) }
    }

    pub(crate) fn internal() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal error")
    }

    /// 503: a service does not respond, or is at a limit.
    pub(crate) fn unavailable() -> Self {
        Self::busy("service is temporarily unavailable, try again")
    }

    /// 503: a limit is reached, which `message` names.
    pub(crate) fn busy(message: impl Into<Cow<'static, str>>) -> Self {
        Self { retry_after: Some(DEFAULT_RETRY_SECONDS), ..Self::new(StatusCode::SERVICE_UNAVAILABLE, message) }
    }

    /// The same error with another `Retry-After`.
    pub(crate) fn retried_after(self, seconds: u64) -> Self {
        Self { retry_after: Some(seconds), ..self }
    }

    pub(crate) fn invalid(mut errors: Vec<FieldError>) -> Self {
        errors.truncate(MAX_FIELD_ERRORS);
        let message = match errors.first() {
            Some(first) => format!("`{}`: {}", first.field, first.message).into(),
            None => Cow::Borrowed("validation failed"),
        };
        Self { errors, ..Self::new(StatusCode::UNPROCESSABLE_ENTITY, message) }
    }

    pub(crate) fn invalid_field(field: &str, code: &'static str, message: impl Into<String>) -> Self {
        Self::invalid(vec![FieldError::new(field, code, message)])
    }

    /// Puts `errors` in place of those of a field, at the end. Returns an error without that field
    /// unchanged.
    pub(crate) fn with_field(mut self, field: &str, errors: Vec<FieldError>) -> Self {
        let count = self.errors.len();
        self.errors.retain(|error| error.field != field);
        match self.errors.len() == count {
            true => self,
            false => Self::invalid(self.errors.into_iter().chain(errors).collect()),
        }
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// The reason that the contracts list for this failure.
    pub(crate) fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// Seconds after which the same request may succeed.
    pub(crate) fn retry_after(&self) -> Option<u64> {
        self.retry_after
    }

    pub(crate) fn moved_to(&self) -> Option<&PresentName> {
        self.moved_to.as_deref()
    }

    /// Makes a 401 ask for a password. Other errors stay as they are.
    pub(crate) fn asking_for_password(self) -> Self {
        Self { asks_for_password: true, ..self }
    }
}

/// Returns the HTTP status for a gRPC code. A few reasons have a status of their own.
pub(crate) fn http_status(code: Code, reason: &str) -> StatusCode {
    match (code, reason) {
        (_, "MIRROR_READ_ONLY") => StatusCode::FORBIDDEN,
        (_, "PRECONDITION_FAILED") => StatusCode::PRECONDITION_FAILED,
        (_, "BRANCH_EXISTS" | "TAG_EXISTS" | "TAG_IN_USE" | "MERGE_CONFLICT" | "MERGE_SCHEDULED" | "PULL_EXISTS") => {
            StatusCode::CONFLICT
        }
        (_, "ALREADY_MERGED" | "IS_DRAFT" | "MERGE_FORBIDDEN" | "PROTECTED_BRANCH" | "STYLE_NOT_ALLOWED") => {
            StatusCode::METHOD_NOT_ALLOWED
        }
        (_, "BRANCH_RENAMED") => StatusCode::MOVED_PERMANENTLY,
        (_, "STORE_FULL") => StatusCode::INSUFFICIENT_STORAGE,
        (_, "WRONG_STORE" | "BAD_PERMIT") => StatusCode::SERVICE_UNAVAILABLE,
        (_, "BAD_GRANT" | "SERVICE_REQUIRED") => StatusCode::INTERNAL_SERVER_ERROR,
        (Code::Ok, _) => StatusCode::OK,
        (Code::InvalidArgument | Code::AlreadyExists | Code::FailedPrecondition, _) => StatusCode::UNPROCESSABLE_ENTITY,
        (Code::NotFound, _) => StatusCode::NOT_FOUND,
        (Code::PermissionDenied, _) => StatusCode::FORBIDDEN,
        (Code::Unauthenticated, _) => StatusCode::UNAUTHORIZED,
        (Code::ResourceExhausted, _) => StatusCode::TOO_MANY_REQUESTS,
        (Code::OutOfRange, _) => StatusCode::PAYLOAD_TOO_LARGE,
        // The client named an outdated version of what it replaces, or two clients raced for one
        // branch. Gogs clients never see this.
        (Code::Aborted, _) => StatusCode::CONFLICT,
        (Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled, _) => StatusCode::SERVICE_UNAVAILABLE,
        (Code::Unknown | Code::Unimplemented | Code::Internal | Code::DataLoss, _) => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

impl From<MissingField> for ApiError {
    fn from(error: MissingField) -> Self {
        tracing::error!("unusable response of a service: {error}");
        Self::internal()
    }
}

impl From<Status> for ApiError {
    fn from(status: Status) -> Self {
        let Some(reason) = reason(&status) else { return from_transport(&status) };
        if reason == "REPOSITORY_MOVED" {
            let moved_to = PresentName::of_repository(&status).map(Box::new);
            return Self { moved_to, ..Self::repository_not_found() };
        }
        if reason == "BRANCH_RENAMED" {
            let moved_to = PresentName::of_branch(&status).map(Box::new);
            return Self { moved_to, ..Self::not_found("branch not found").because("BRANCH_NOT_FOUND") };
        }
        let http = http_status(status.code(), &reason);
        if http == StatusCode::INTERNAL_SERVER_ERROR || http == StatusCode::OK {
            tracing::error!(code = ?status.code(), reason, "a service failed: {}", status.message());
            return Self::internal();
        }
        let message = match reason.as_str() {
            "REPOSITORY_NOT_FOUND" => Cow::Borrowed(REPOSITORY_NOT_FOUND),
            _ => Cow::Owned(status.message().to_owned()),
        };
        let errors = violations(&status)
            .into_iter()
            .map(|(field, code, message)| FieldError { field, code: code.into(), message })
            .collect();
        let after = status.get_details_retry_info().and_then(|info| info.retry_delay).map(whole_seconds);
        let retry_after = match http {
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => after.or(Some(DEFAULT_RETRY_SECONDS)),
            // Only if the same request may succeed: not with an outdated `sha`.
            StatusCode::CONFLICT => after,
            _ => None,
        };
        let error = Self { errors, retry_after, ..Self::new(http, message) };
        // The codes of the fields say what is wrong.
        if matches!(reason.as_str(), "INVALID_REQUEST" | "INVALID_FIELDS") { error } else { error.because(reason) }
    }
}

/// Rounds up to whole seconds.
pub(crate) fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}

/// Converts a status without `ErrorInfo`. It comes from the transport, not from a service, so its
/// message is logged and never sent to the client.
fn from_transport(status: &Status) -> ApiError {
    let is_absent = http_status(status.code(), "") == StatusCode::SERVICE_UNAVAILABLE;
    tracing::warn!(code = ?status.code(), "a call failed: {}", status.message());
    if status.code() == Code::OutOfRange {
        // The message exceeds the service's limit: the body was within ours, but the rest of the
        // message came on top.
        return ApiError::too_large();
    }
    if is_absent || is_connection_lost(status) { ApiError::unavailable() } else { ApiError::internal() }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            let challenge = if self.asks_for_password { PASSWORD_CHALLENGE } else { TOKEN_CHALLENGE };
            response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        }
        if self.is_compressed {
            response.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
        response.extensions_mut().insert(self);
        response
    }
}

/// Response extension of an error: the `operationId` of the requested operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OperationId(pub(crate) &'static str);

#[derive(Serialize)]
struct ErrorBody<'a> {
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    url: String,
    #[serde(skip_serializing_if = "<[FieldError]>::is_empty")]
    errors: &'a [FieldError],
}

/// Writes the body of a response that is an [`ApiError`]. Returns other responses unchanged.
pub(crate) fn render(response: Response, links: &Links) -> Response {
    let Some(error) = response.extensions().get::<ApiError>() else { return response };
    let url = match response.extensions().get::<OperationId>() {
        Some(OperationId(id)) => format!("{}#{id}", links.docs()),
        None => links.docs(),
    };
    let body = ErrorBody { message: &error.message, reason: error.reason.as_deref(), url, errors: &error.errors };
    let bytes = json::encode(&body);
    let (mut parts, _) = response.into_parts();
    parts.headers.remove(CONTENT_LENGTH);
    parts.headers.insert(CONTENT_TYPE, json::CONTENT_TYPE_JSON);
    Response::from_parts(parts, axum::body::Body::from(bytes))
}

#[cfg(test)]
mod tests;
