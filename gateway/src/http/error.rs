//! Errors of the API, and the one table from gRPC statuses to HTTP.
//!
//! Not here: errors of git over HTTP, which are plain text.

use std::borrow::Cow;
use std::time::Duration;

use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use ferrite_proto::error::{FieldViolation, reason, violations};
use serde::Serialize;
use tonic::{Code, Status};
use tonic_types::StatusExt;

use super::json;
use super::links::Links;

/// Value of `WWW-Authenticate`.
const CHALLENGE: HeaderValue = HeaderValue::from_static("Basic realm=\"Ferrite\"");
/// Message for missing and for hidden repositories alike.
const REPOSITORY_NOT_FOUND: &str = "repository does not exist";
/// `Retry-After` where the service names no time, in seconds.
const DEFAULT_RETRY_SECONDS: u64 = 1;
/// Most field errors in one response: a small body can have very many.
const MAX_FIELD_ERRORS: usize = 100;

/// An error response. [`render`] writes its body, which needs the address of the documentation.
#[derive(Clone, Debug)]
pub(crate) struct ApiError {
    pub(crate) status: StatusCode,
    message: Cow<'static, str>,
    errors: Vec<FieldError>,
    retry_after: Option<u64>,
    challenge: bool,
}

/// An error in one field, in the JSON shape of the API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct FieldError {
    pub(crate) field: String,
    pub(crate) code: Cow<'static, str>,
    pub(crate) message: String,
}

impl FieldError {
    /// The error of a value that is not `expected` (`a string`).
    pub(super) fn wrong_type(field: &str, expected: &str) -> Self {
        Self { field: field.to_owned(), code: "type".into(), message: format!("must be {expected}") }
    }
}

impl From<FieldViolation> for FieldError {
    fn from(violation: FieldViolation) -> Self {
        Self { field: violation.field, code: violation.code.into(), message: violation.message }
    }
}

impl ApiError {
    pub(crate) fn new(status: StatusCode, message: impl Into<Cow<'static, str>>) -> Self {
        Self { status, message: message.into(), errors: Vec::new(), retry_after: None, challenge: false }
    }

    pub(crate) fn bad_request(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    pub(crate) fn credentials_required() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "credentials are required")
    }

    pub(crate) fn bad_credentials() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "credentials are not valid")
    }

    pub(crate) fn repository_not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, REPOSITORY_NOT_FOUND)
    }

    pub(crate) fn not_found(message: &'static str) -> Self {
        Self::new(StatusCode::NOT_FOUND, message)
    }

    pub(crate) fn too_large() -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "request body is too large")
    }

    pub(crate) fn internal() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal error")
    }

    /// 503: a service does not answer, or a limit is reached.
    pub(crate) fn unavailable() -> Self {
        Self {
            retry_after: Some(DEFAULT_RETRY_SECONDS),
            ..Self::new(StatusCode::SERVICE_UNAVAILABLE, "service is not available now, try again")
        }
    }

    /// 422: fields of the request break a rule.
    pub(crate) fn invalid(mut errors: Vec<FieldError>) -> Self {
        errors.truncate(MAX_FIELD_ERRORS);
        let message = match errors.first() {
            Some(first) => format!("`{}`: {}", first.field, first.message).into(),
            None => Cow::Borrowed("validation failed"),
        };
        Self { errors, ..Self::new(StatusCode::UNPROCESSABLE_ENTITY, message) }
    }

    /// Adds `WWW-Authenticate: Basic` to a 401.
    pub(crate) fn with_challenge(mut self) -> Self {
        self.challenge = self.status == StatusCode::UNAUTHORIZED;
        self
    }
}

/// Returns the HTTP status for a gRPC code. A few reasons of our services have a status of their own.
fn http_status(code: Code, reason: &str) -> StatusCode {
    match (code, reason) {
        (_, "MIRROR_READ_ONLY") => StatusCode::FORBIDDEN,
        (_, "STORE_FULL") => StatusCode::INSUFFICIENT_STORAGE,
        (_, "WRONG_STORE") => StatusCode::SERVICE_UNAVAILABLE,
        (_, "BAD_GRANT" | "SERVICE_REQUIRED") => StatusCode::INTERNAL_SERVER_ERROR,
        (Code::Ok, _) => StatusCode::OK,
        (Code::InvalidArgument | Code::AlreadyExists | Code::FailedPrecondition, _) => StatusCode::UNPROCESSABLE_ENTITY,
        (Code::NotFound, _) => StatusCode::NOT_FOUND,
        (Code::PermissionDenied, _) => StatusCode::FORBIDDEN,
        (Code::Unauthenticated, _) => StatusCode::UNAUTHORIZED,
        (Code::ResourceExhausted, _) => StatusCode::TOO_MANY_REQUESTS,
        (Code::OutOfRange, _) => StatusCode::PAYLOAD_TOO_LARGE,
        // A client named the old version of what it replaces, or two raced for one branch. Clients of Gogs never see it.
        (Code::Aborted, _) => StatusCode::CONFLICT,
        (Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled, _) => StatusCode::SERVICE_UNAVAILABLE,
        (Code::Unknown | Code::Unimplemented | Code::Internal | Code::DataLoss, _) => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

impl From<Status> for ApiError {
    fn from(status: Status) -> Self {
        let Some(reason) = reason(&status) else { return from_transport(&status) };
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
        let is_temporary = matches!(http, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
        let retry_after = if is_temporary { after.or(Some(DEFAULT_RETRY_SECONDS)) } else { None };
        Self { errors, retry_after, ..Self::new(http, message) }
    }
}

/// Returns a duration in seconds, rounded up.
fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}

/// Converts a status without `ErrorInfo`, which comes from the transport and not from a service. Its message is logged and never
/// sent to the client.
fn from_transport(status: &Status) -> ApiError {
    let is_connection = std::error::Error::source(status).is_some();
    let is_absent = http_status(status.code(), "") == StatusCode::SERVICE_UNAVAILABLE;
    tracing::warn!(code = ?status.code(), "a call failed: {}", status.message());
    if status.code() == Code::OutOfRange {
        // The message is above the limit of the service: the body was within our limit, and the rest of the message was added to it.
        return ApiError::too_large();
    }
    if is_connection || is_absent { ApiError::unavailable() } else { ApiError::internal() }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.challenge {
            response.headers_mut().insert(WWW_AUTHENTICATE, CHALLENGE);
        }
        response.extensions_mut().insert(self);
        response
    }
}

#[derive(Serialize)]
struct ErrorBody<'a> {
    message: &'a str,
    url: String,
    #[serde(skip_serializing_if = "<[FieldError]>::is_empty")]
    errors: &'a [FieldError],
}

/// Writes the body of a response that is an [`ApiError`]. Returns other responses unchanged.
pub(crate) fn render(response: Response, links: &Links) -> Response {
    let Some(error) = response.extensions().get::<ApiError>() else { return response };
    let body = ErrorBody { message: &error.message, url: links.docs(), errors: &error.errors };
    let bytes = json::encode(&body);
    let (mut parts, _) = response.into_parts();
    let mut headers = HeaderMap::new();
    std::mem::swap(&mut headers, &mut parts.headers);
    headers.remove(axum::http::header::CONTENT_LENGTH);
    headers.insert(CONTENT_TYPE, json::CONTENT_TYPE_JSON);
    parts.headers = headers;
    Response::from_parts(parts, axum::body::Body::from(bytes))
}

#[cfg(test)]
mod tests {
    use ferrite_proto::error::{Kind, ServiceError, to_status};

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("text of the service")]
    struct TestError(Kind, &'static str);

    impl ServiceError for TestError {
        fn kind(&self) -> Kind {
            self.0
        }

        fn reason(&self) -> &'static str {
            self.1
        }

        fn domain(&self) -> &'static str {
            "test"
        }

        fn violations(&self) -> Vec<FieldViolation> {
            match self.0 {
                Kind::InvalidArgument => vec![FieldViolation::new("name", "too_long", "at most 100 characters")],
                _ => Vec::new(),
            }
        }

        fn retry_after(&self) -> Option<Duration> {
            (self.0 == Kind::RateLimited).then(|| Duration::from_millis(2_500))
        }
    }

    fn of(kind: Kind, reason: &'static str) -> ApiError {
        to_status(&TestError(kind, reason)).into()
    }

    #[test]
    fn every_kind_of_failure_has_its_http_status() {
        let table = [
            (Kind::InvalidArgument, 422),
            (Kind::NotFound, 404),
            (Kind::AlreadyExists, 422),
            (Kind::PermissionDenied, 403),
            (Kind::Unauthenticated, 401),
            (Kind::Aborted, 409),
            (Kind::FailedPrecondition, 422),
            (Kind::RateLimited, 429),
            (Kind::TooLarge, 413),
            (Kind::Overloaded, 503),
            (Kind::Internal, 500),
        ];
        for (kind, status) in table {
            let error = of(kind, "SOME_REASON");
            assert_eq!(error.status.as_u16(), status, "{kind:?}");
            let expected = if kind == Kind::Internal { "internal error" } else { "text of the service" };
            assert_eq!(error.message, expected);
        }
    }

    #[test]
    fn field_errors_above_the_limit_are_left_out() {
        let one = FieldError { field: "x".into(), code: "type".into(), message: "must be a string".into() };
        assert_eq!(ApiError::invalid(vec![one; 5_000]).errors.len(), MAX_FIELD_ERRORS);
    }

    #[test]
    fn every_code_without_our_details_becomes_a_bare_503_413_or_500() {
        for number in 1..=16 {
            let code = Code::from_i32(number);
            let error = ApiError::from(Status::new(code, "text of the transport"));
            let expected = match code {
                Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled => 503,
                // tonic's code for a message that is too long.
                Code::OutOfRange => 413,
                _ => 500,
            };
            assert_eq!(error.status.as_u16(), expected, "{code:?}");
            assert!(!error.message.contains("transport"));
        }
    }

    #[test]
    fn some_reasons_have_a_status_of_their_own() {
        assert_eq!(of(Kind::FailedPrecondition, "MIRROR_READ_ONLY").status.as_u16(), 403);
        assert_eq!(of(Kind::FailedPrecondition, "WRONG_STORE").status.as_u16(), 503);
        assert_eq!(of(Kind::Aborted, "STALE_BLOB").status.as_u16(), 409);
        assert_eq!(of(Kind::Unauthenticated, "BAD_GRANT").status.as_u16(), 500);
        assert_eq!(of(Kind::NotFound, "REPOSITORY_NOT_FOUND").message, REPOSITORY_NOT_FOUND);
    }

    #[test]
    fn field_errors_and_retry_after_reach_the_client() {
        let error = of(Kind::InvalidArgument, "BAD");
        let field =
            FieldError { field: "name".into(), code: "too_long".into(), message: "at most 100 characters".into() };
        assert_eq!(error.errors, [field]);
        let response = of(Kind::RateLimited, "TOO_MANY_ATTEMPTS").into_response();
        assert_eq!(response.headers()[RETRY_AFTER], "3");
    }

    #[tokio::test]
    async fn an_error_is_an_object_with_message_and_url() {
        let links = Links::new("http://git.example.com", "h:22");
        let response = render(ApiError::bad_request("a <b> & c").with_challenge().into_response(), &links);
        assert_eq!(response.headers()[CONTENT_TYPE], "application/json; charset=UTF-8");
        let body = axum::body::to_bytes(response.into_body(), 1024).await.unwrap();
        let expected = r#"{"message":"a \u003cb\u003e \u0026 c","url":"http://git.example.com/docs/api"}"#;
        assert_eq!(body, expected);
    }
}
