//! Errors of git over HTTP: a status and one line of plain text, which git shows to its user.

use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use ferrite_proto::error::reason;
use ferrite_rpc::grpc::is_connection_lost;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, StatusCode};
use tonic::{Code, Status};
use tonic_types::StatusExt;

use crate::auth::{CROSS_SITE, InvalidCredential};
use crate::http::error::whole_seconds;

const CHALLENGE: &str = "Basic realm=\"Ferrite\"";
/// `Retry-After` of a 429 if repo-svc names no time.
const DEFAULT_ATTEMPT_DELAY: Duration = Duration::from_secs(60);
/// `Retry-After` of a 503 if no service names a time.
const DEFAULT_RETRY_DELAY: Duration = Duration::from_secs(1);
const MAX_LINE_CHARS: usize = 200;

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum GitHttpError {
    /// Also the response for missing repositories if the request has no credentials.
    #[error("credentials are required")]
    CredentialsRequired,
    #[error("credentials are not valid")]
    BadCredentials,
    /// The repository is missing, or hidden from the caller.
    #[error("repository does not exist")]
    NotFound,
    /// A push from a page of another site: browsers add remembered passwords to its requests.
    #[error("{}", CROSS_SITE)]
    CrossSite,
    #[error("mirror repository is read-only")]
    MirrorReadOnly,
    /// The message of repo-svc.
    #[error("{0}")]
    PermissionDenied(String),
    #[error("service is not supported")]
    UnknownService,
    #[error("only the smart protocol is supported; please upgrade git")]
    DumbProtocol,
    #[error("malformed `Git-Protocol` header")]
    InvalidProtocol,
    #[error("content type must be {0}")]
    ContentType(&'static str),
    #[error("content encoding must be gzip or none")]
    ContentEncoding,
    /// Too many wrong passwords, with the time after which the client can retry.
    #[error("too many failed attempts; try again later")]
    TooManyAttempts(Option<Duration>),
    /// A service cannot be reached or is at a limit, with the time after which the client can
    /// retry.
    #[error("service is temporarily unavailable; try again later")]
    Unavailable(Option<Duration>),
    /// git-svc is at a limit, in total or for the caller, with its line of text and the time after
    /// which the client can retry.
    #[error("{0}")]
    Busy(String, Option<Duration>),
    #[error("connection to the repository was lost")]
    Interrupted,
    /// An error response of git-svc that is passed on: its status and one line of text.
    #[error("{1}")]
    GitService(StatusCode, String),
    /// A bug or a broken installation. The log has the cause.
    #[error("internal error")]
    Internal,
}

impl GitHttpError {
    pub(super) fn missing(is_anonymous: bool) -> Self {
        if is_anonymous { Self::CredentialsRequired } else { Self::NotFound }
    }

    /// Converts a status of repo-svc. A status without `ErrorInfo` comes from the transport; its
    /// message is never sent to the client.
    pub(super) fn of_status(status: &Status, is_anonymous: bool) -> Self {
        let retry_after = || status.get_details_retry_info().and_then(|info| info.retry_delay);
        match (status.code(), reason(status)) {
            (Code::NotFound | Code::InvalidArgument, Some(_)) => Self::missing(is_anonymous),
            (Code::Unauthenticated, Some(_)) if is_anonymous => Self::CredentialsRequired,
            (Code::Unauthenticated, Some(_)) => Self::BadCredentials,
            (Code::PermissionDenied, Some(_)) => Self::PermissionDenied(one_line(status.message())),
            (Code::ResourceExhausted, Some(_)) => Self::TooManyAttempts(retry_after()),
            (Code::Unavailable | Code::DeadlineExceeded | Code::Aborted | Code::Cancelled, _) => {
                tracing::warn!(code = ?status.code(), "repo-svc is unavailable, cannot resolve access");
                Self::Unavailable(retry_after())
            }
            (_, None) if is_connection_lost(status) => {
                tracing::warn!("connection to repo-svc lost");
                Self::Unavailable(None)
            }
            (code, _) => {
                tracing::error!(?code, message = status.message(), "repo-svc failed to resolve access");
                Self::Internal
            }
        }
    }

    fn status(&self) -> StatusCode {
        match self {
            Self::CredentialsRequired | Self::BadCredentials => StatusCode::UNAUTHORIZED,
            Self::NotFound | Self::DumbProtocol => StatusCode::NOT_FOUND,
            Self::CrossSite | Self::MirrorReadOnly | Self::PermissionDenied(_) | Self::UnknownService => {
                StatusCode::FORBIDDEN
            }
            Self::InvalidProtocol => StatusCode::BAD_REQUEST,
            Self::ContentType(_) | Self::ContentEncoding => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::TooManyAttempts(_) => StatusCode::TOO_MANY_REQUESTS,
            Self::Unavailable(_) | Self::Busy(..) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Interrupted => StatusCode::BAD_GATEWAY,
            Self::GitService(status, _) => *status,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    fn retry_after(&self) -> Option<u64> {
        let delay = match self {
            Self::TooManyAttempts(delay) => delay.unwrap_or(DEFAULT_ATTEMPT_DELAY),
            Self::Unavailable(delay) | Self::Busy(_, delay) => delay.unwrap_or(DEFAULT_RETRY_DELAY),
            _ => return None,
        };
        Some(whole_seconds(delay))
    }
}

impl From<InvalidCredential> for GitHttpError {
    fn from(_: InvalidCredential) -> Self {
        Self::BadCredentials
    }
}

impl IntoResponse for GitHttpError {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::from(self.to_string()));
        *response.status_mut() = self.status();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        if self.status() == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static(CHALLENGE));
        }
        if let Some(seconds) = self.retry_after() {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// Returns the first line of a text, limited to printable ASCII (no terminal escapes) and
/// [`MAX_LINE_CHARS`].
pub(super) fn one_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    line.chars().filter(|char| matches!(char, ' '..='~')).take(MAX_LINE_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;
    use tonic_types::ErrorDetails;

    use super::*;

    fn service_status(code: Code, reason: &str, retry_after: Option<Duration>) -> Status {
        let mut details = ErrorDetails::new();
        details.set_error_info(reason, "repo.ferrite", HashMap::new());
        details.set_retry_info(retry_after);
        Status::with_error_details(code, "message", details)
    }

    #[test]
    fn hidden_and_missing_look_alike() {
        for code in [Code::NotFound, Code::InvalidArgument] {
            let status = service_status(code, "REPOSITORY_NOT_FOUND", None);
            assert_eq!(GitHttpError::of_status(&status, true), GitHttpError::CredentialsRequired);
            assert_eq!(GitHttpError::of_status(&status, false), GitHttpError::NotFound);
        }
    }

    #[test]
    fn a_lost_connection_is_no_fault_of_the_service() {
        let status = Status::from_error(Box::new(std::io::Error::from(std::io::ErrorKind::ConnectionReset)));
        assert_eq!(status.code(), Code::Unknown);
        assert_eq!(GitHttpError::of_status(&status, false), GitHttpError::Unavailable(None));
    }

    #[test]
    fn the_message_of_a_transport_status_is_never_sent() {
        for code in (0..=16).map(Code::from) {
            let error = GitHttpError::of_status(&Status::new(code, "secret"), false);
            assert!(matches!(error, GitHttpError::Unavailable(None) | GitHttpError::Internal), "{code:?}: {error:?}");
        }
    }

    #[test]
    fn every_code_of_a_service_has_a_status() {
        let of = |code| GitHttpError::of_status(&service_status(code, "REASON", None), false).status().as_u16();
        let table: Vec<u16> = (1..=16).map(|code| of(Code::from(code))).collect();
        assert_eq!(table, [503, 500, 404, 503, 404, 500, 403, 429, 500, 503, 500, 500, 500, 503, 500, 401]);
    }

    #[test]
    fn only_401_has_a_challenge() {
        for error in [GitHttpError::CredentialsRequired, GitHttpError::BadCredentials] {
            assert_eq!(error.into_response().headers()[WWW_AUTHENTICATE], "Basic realm=\"Ferrite\"");
        }
        for error in [GitHttpError::NotFound, GitHttpError::MirrorReadOnly, GitHttpError::Internal] {
            assert!(!error.into_response().headers().contains_key(WWW_AUTHENTICATE));
        }
    }

    #[test]
    fn retry_after_is_in_whole_seconds_rounded_up() {
        let status = service_status(Code::ResourceExhausted, "TOO_MANY_ATTEMPTS", Some(Duration::from_millis(1500)));
        let response = GitHttpError::of_status(&status, false).into_response();
        assert_eq!(
            (response.status(), &response.headers()[RETRY_AFTER]),
            (StatusCode::TOO_MANY_REQUESTS, &"2".parse().unwrap())
        );
    }

    proptest! {
        #[test]
        fn any_text_becomes_one_plain_line(text in "\\PC*(\\n|\\r|\\x1b)?.*") {
            let line = one_line(&text);
            prop_assert!(line.len() <= MAX_LINE_CHARS && line.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
        }
    }
}
