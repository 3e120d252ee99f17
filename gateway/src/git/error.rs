use std::borrow::Cow;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use ferrite_proto::error::reason;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, StatusCode};
use tonic::{Code, Status};
use tonic_types::StatusExt;

use super::request::Service;

const REALM: &str = "Basic realm=\"Ferrite\"";

/// Why a git client gets no pack. Becomes one line of plain text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Credentials are missing and needed, if only to say more.
    Challenge,
    /// Credentials came along that are wrong or cannot be read.
    BadCredentials,
    /// It does not exist, or not for this caller.
    NotFound,
    /// The repository follows another one; nobody pushes to it.
    Mirror,
    /// The caller is known and not let in, and told why.
    Denied(String),
    /// There is no such service.
    UnknownService,
    /// The request is one of the dumb protocol.
    Dumb,
    /// `Git-Protocol` is junk.
    BadProtocol,
    /// The body is declared as something else than the service takes.
    ContentType(Service),
    /// The body has a coding that is not understood.
    ContentEncoding,
    /// Too many wrong passwords.
    TooManyAttempts(Option<Duration>),
    /// A service cannot be reached or has no room now.
    Unavailable(Option<Duration>),
    /// git-svc was lost before it answered.
    Interrupted,
    /// git-svc refused, with a status below 500 and a line of text.
    Upstream(StatusCode, String),
    /// A fault of ours.
    Internal,
}

impl Refusal {
    /// What a caller hears about a repository that it may not see, or that is not there.
    pub(super) fn missing(is_anonymous: bool) -> Self {
        if is_anonymous { Self::Challenge } else { Self::NotFound }
    }

    /// What a caller hears when repo-svc answers with `status`. Only a status of our own speaks to the client.
    pub(super) fn of_status(status: &Status, is_anonymous: bool) -> Self {
        let pause = || status.get_details_retry_info().and_then(|info| info.retry_delay);
        match (status.code(), reason(status)) {
            (Code::NotFound | Code::InvalidArgument, Some(_)) => Self::missing(is_anonymous),
            (Code::Unauthenticated, Some(_)) if is_anonymous => Self::Challenge,
            (Code::Unauthenticated, Some(_)) => Self::BadCredentials,
            (Code::PermissionDenied, Some(_)) => Self::Denied(one_line(status.message())),
            (Code::ResourceExhausted, Some(_)) => Self::TooManyAttempts(pause()),
            (Code::Unavailable | Code::DeadlineExceeded | Code::Aborted | Code::Cancelled, _) => {
                tracing::warn!(code = ?status.code(), "repo-svc cannot say who may reach a repository");
                Self::Unavailable(pause())
            }
            (code, _) => {
                tracing::error!(?code, message = status.message(), "repo-svc failed to say who may reach a repository");
                Self::Internal
            }
        }
    }

    fn status(&self) -> StatusCode {
        match self {
            Self::Challenge | Self::BadCredentials => StatusCode::UNAUTHORIZED,
            Self::NotFound | Self::Dumb => StatusCode::NOT_FOUND,
            Self::Mirror | Self::Denied(_) | Self::UnknownService => StatusCode::FORBIDDEN,
            Self::BadProtocol => StatusCode::BAD_REQUEST,
            Self::ContentType(_) | Self::ContentEncoding => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::TooManyAttempts(_) => StatusCode::TOO_MANY_REQUESTS,
            Self::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Interrupted => StatusCode::BAD_GATEWAY,
            Self::Upstream(status, _) => *status,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    fn text(&self) -> Cow<'static, str> {
        match self {
            Self::Challenge => "credentials are required".into(),
            Self::BadCredentials => "credentials are not valid".into(),
            Self::NotFound => "repository does not exist".into(),
            Self::Mirror => "mirror repository is read-only".into(),
            Self::UnknownService => "service is not offered".into(),
            Self::Dumb => "only the smart protocol is served; please upgrade git".into(),
            Self::BadProtocol => "`Git-Protocol` is not well formed".into(),
            Self::ContentType(service) => format!("content type must be {}", service.request_type()).into(),
            Self::ContentEncoding => "content encoding must be gzip or none".into(),
            Self::TooManyAttempts(_) => "too many failed attempts; try again later".into(),
            Self::Unavailable(_) => "service is not available now; try again later".into(),
            Self::Interrupted => "connection to the repository was lost".into(),
            Self::Denied(text) | Self::Upstream(_, text) => text.clone().into(),
            Self::Internal => "internal error".into(),
        }
    }

    fn retry_after(&self) -> Option<u64> {
        let pause = match self {
            Self::TooManyAttempts(pause) => pause.unwrap_or(Duration::from_secs(60)),
            Self::Unavailable(pause) => pause.unwrap_or(Duration::from_secs(1)),
            _ => return None,
        };
        Some(pause.as_secs() + u64::from(pause.subsec_nanos() > 0))
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::from(self.text().into_owned()));
        *response.status_mut() = self.status();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        if self.status() == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static(REALM));
        }
        if let Some(seconds) = self.retry_after() {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// The first line of a text without what a terminal would act upon, at most 200 characters.
pub(super) fn one_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    line.chars().filter(|char| matches!(char, ' '..='~')).take(200).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;
    use tonic_types::ErrorDetails;

    use super::*;

    fn ours(code: Code, reason: &str, pause: Option<Duration>) -> Status {
        let mut details = ErrorDetails::new();
        details.set_error_info(reason, "repo.ferrite", HashMap::new());
        details.set_retry_info(pause);
        Status::with_error_details(code, "what it says", details)
    }

    #[test]
    fn hidden_and_missing_look_alike() {
        for code in [Code::NotFound, Code::InvalidArgument] {
            let status = ours(code, "REPOSITORY_NOT_FOUND", None);
            assert_eq!(Refusal::of_status(&status, true), Refusal::Challenge);
            assert_eq!(Refusal::of_status(&status, false), Refusal::NotFound);
        }
    }

    #[test]
    fn a_status_that_is_not_ours_never_speaks() {
        for code in (0..=16).map(Code::from) {
            let refusal = Refusal::of_status(&Status::new(code, "secret"), false);
            assert!(matches!(refusal, Refusal::Unavailable(None) | Refusal::Internal), "{code:?}: {refusal:?}");
        }
    }

    #[test]
    fn every_code_of_ours_has_an_answer() {
        let of = |code| Refusal::of_status(&ours(code, "REASON", None), false).status().as_u16();
        let table: Vec<u16> = (1..=16).map(|code| of(Code::from(code))).collect();
        assert_eq!(table, [503, 500, 404, 503, 404, 500, 403, 429, 500, 503, 500, 500, 500, 503, 500, 401]);
    }

    #[test]
    fn only_a_challenge_asks_for_credentials() {
        for refusal in [Refusal::Challenge, Refusal::BadCredentials] {
            assert_eq!(refusal.into_response().headers()[WWW_AUTHENTICATE], "Basic realm=\"Ferrite\"");
        }
        for refusal in [Refusal::NotFound, Refusal::Mirror, Refusal::Internal] {
            assert!(!refusal.into_response().headers().contains_key(WWW_AUTHENTICATE));
        }
    }

    #[test]
    fn a_pause_is_told_in_whole_seconds_rounded_up() {
        let status = ours(Code::ResourceExhausted, "TOO_MANY_ATTEMPTS", Some(Duration::from_millis(1500)));
        let response = Refusal::of_status(&status, false).into_response();
        assert_eq!(
            (response.status(), &response.headers()[RETRY_AFTER]),
            (StatusCode::TOO_MANY_REQUESTS, &"2".parse().unwrap())
        );
    }

    proptest! {
        #[test]
        fn any_text_becomes_one_plain_line(text in "\\PC*(\\n|\\r|\\x1b)?.*") {
            let line = one_line(&text);
            prop_assert!(line.len() <= 200 && line.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
        }
    }
}
