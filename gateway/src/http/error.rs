//! What clients are refused with, and the one table from gRPC statuses to HTTP.

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

/// The realm of every challenge.
pub(crate) const CHALLENGE: HeaderValue = HeaderValue::from_static("Basic realm=\"Ferrite\"");
/// One text for missing and hidden repositories.
const REPOSITORY_NOT_FOUND: &str = "repository does not exist";
const RETRY_SECONDS: u64 = 1;
/// Mistakes told at once: a small body can hold very many.
const MAX_ERRORS: usize = 100;

/// A refusal on its way to the client. Its body is written by [`render`], which knows the documentation's address.
#[derive(Clone, Debug)]
pub(crate) struct ApiError {
    pub(crate) status: StatusCode,
    message: Cow<'static, str>,
    errors: Vec<FieldError>,
    retry_after: Option<u64>,
    challenge: bool,
}

/// One field at fault, as the contract shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct FieldError {
    pub(crate) field: String,
    pub(crate) code: Cow<'static, str>,
    pub(crate) message: String,
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

    pub(crate) fn not_found(what: &'static str) -> Self {
        Self::new(StatusCode::NOT_FOUND, what)
    }

    pub(crate) fn too_large() -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "request body is too large")
    }

    pub(crate) fn internal() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal error")
    }

    /// Something has no room or does not answer now.
    pub(crate) fn unavailable() -> Self {
        Self {
            retry_after: Some(RETRY_SECONDS),
            ..Self::new(StatusCode::SERVICE_UNAVAILABLE, "service is not available now, try again")
        }
    }

    /// Fields of the request that break a rule.
    pub(crate) fn invalid(mut errors: Vec<FieldError>) -> Self {
        errors.truncate(MAX_ERRORS);
        let message = match errors.first() {
            Some(first) => format!("`{}`: {}", first.field, first.message).into(),
            None => Cow::Borrowed("validation failed"),
        };
        Self { errors, ..Self::new(StatusCode::UNPROCESSABLE_ENTITY, message) }
    }

    /// The same refusal, with a challenge for a password when it is about credentials.
    pub(crate) fn challenged(mut self) -> Self {
        self.challenge = self.status == StatusCode::UNAUTHORIZED;
        self
    }
}

/// The HTTP status for a gRPC code and, where one of ours decides otherwise, its reason.
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
        // Only for callers that named what they replace, or raced for one branch: clients of Gogs never see it.
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
        let after = status.get_details_retry_info().and_then(|info| info.retry_delay).map(seconds_up);
        let waits = matches!(http, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
        let retry_after = if waits { after.or(Some(RETRY_SECONDS)) } else { None };
        Self { errors, retry_after, ..Self::new(http, message) }
    }
}

fn seconds_up(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}

/// A status without our details is the transport talking: the client hears the bare phrase.
fn from_transport(status: &Status) -> ApiError {
    let is_connection = std::error::Error::source(status).is_some();
    let is_absent = http_status(status.code(), "") == StatusCode::SERVICE_UNAVAILABLE;
    tracing::warn!(code = ?status.code(), "a call failed: {}", status.message());
    if status.code() == Code::OutOfRange {
        // A message beyond what its reader takes: the body was within our limit, and too large together with what goes along.
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

/// Writes the body of a response that is an [`ApiError`]; leaves others as they are.
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
    struct Refused(Kind, &'static str);

    impl ServiceError for Refused {
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
        to_status(&Refused(kind, reason)).into()
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
    fn many_mistakes_are_told_in_part() {
        let one = FieldError { field: "x".into(), code: "type".into(), message: "must be a string".into() };
        assert_eq!(ApiError::invalid(vec![one; 5_000]).errors.len(), MAX_ERRORS);
    }

    #[test]
    fn every_code_without_our_details_becomes_a_bare_503_413_or_500() {
        for number in 1..=16 {
            let code = Code::from_i32(number);
            let error = ApiError::from(Status::new(code, "text of a stranger"));
            let expected = match code {
                Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled => 503,
                // What the transport says of a message that is too long.
                Code::OutOfRange => 413,
                _ => 500,
            };
            assert_eq!(error.status.as_u16(), expected, "{code:?}");
            assert!(!error.message.contains("stranger"));
        }
    }

    #[test]
    fn some_reasons_decide_for_themselves() {
        assert_eq!(of(Kind::FailedPrecondition, "MIRROR_READ_ONLY").status.as_u16(), 403);
        assert_eq!(of(Kind::FailedPrecondition, "WRONG_STORE").status.as_u16(), 503);
        assert_eq!(of(Kind::Aborted, "STALE_BLOB").status.as_u16(), 409);
        assert_eq!(of(Kind::Unauthenticated, "BAD_GRANT").status.as_u16(), 500);
        assert_eq!(of(Kind::NotFound, "REPOSITORY_NOT_FOUND").message, REPOSITORY_NOT_FOUND);
    }

    #[test]
    fn fields_and_pauses_reach_the_client() {
        let error = of(Kind::InvalidArgument, "BAD");
        let field =
            FieldError { field: "name".into(), code: "too_long".into(), message: "at most 100 characters".into() };
        assert_eq!(error.errors, [field]);
        let response = of(Kind::RateLimited, "TOO_MANY_ATTEMPTS").into_response();
        assert_eq!(response.headers()[RETRY_AFTER], "3");
    }

    #[tokio::test]
    async fn a_refusal_is_an_object_with_message_and_url() {
        let links = Links::new("http://git.example.com", "h:22");
        let response = render(ApiError::bad_request("a <b> & c").challenged().into_response(), &links);
        assert_eq!(response.headers()[CONTENT_TYPE], "application/json; charset=UTF-8");
        let body = axum::body::to_bytes(response.into_body(), 1024).await.unwrap();
        let expected = r#"{"message":"a \u003cb\u003e \u0026 c","url":"http://git.example.com/docs/api"}"#;
        assert_eq!(body, expected);
    }
}
