//! Cache headers of responses (RFC 9111). Almost every response depends on the caller, so shared
//! caches must not store it.

use axum::http::header::{ACCEPT, AUTHORIZATION, CACHE_CONTROL, VARY};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};

use super::describe::{Description, Output};
use super::error::ApiError;

/// The client can store the response but must revalidate it before use.
const PRIVATE: HeaderValue = HeaderValue::from_static("private, no-cache");
/// The client can use the response for a day without revalidation, because the URL always has the
/// same content. Only a day, because the next version of the program may add fields.
pub(crate) const IMMUTABLE: HeaderValue = HeaderValue::from_static("private, max-age=86400, immutable");
pub(crate) const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

/// Adds cache headers to a response. Errors, also outside of the API, and responses to writes are
/// not stored: a cached 404 would hide what is created a moment later.
pub(crate) fn complete(response: &mut Response, is_api: bool, is_read: bool) {
    let is_error = response.extensions().get::<ApiError>().is_some();
    if is_error || (is_api && !is_read) {
        response.headers_mut().insert(CACHE_CONTROL, NO_STORE);
    } else if is_api {
        depends_on_caller(response.headers_mut());
    }
}

/// Adds cache headers to a read that depends on the caller. Headers set by its handler stay.
pub(crate) fn depends_on_caller(headers: &mut HeaderMap) {
    headers.entry(CACHE_CONTROL).or_insert(PRIVATE);
    headers.append(VARY, HeaderValue::from(AUTHORIZATION));
}

pub(crate) struct Negotiated<R>(pub(crate) R);

impl<R: IntoResponse> IntoResponse for Negotiated<R> {
    fn into_response(self) -> Response {
        let mut response = self.0.into_response();
        response.headers_mut().insert(VARY, HeaderValue::from(ACCEPT));
        response
    }
}

impl<R: Output> Output for Negotiated<R> {
    fn describe(about: &mut Description) {
        R::describe(about);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(response: impl IntoResponse, is_api: bool, is_read: bool) -> [String; 2] {
        let mut response = response.into_response();
        complete(&mut response, is_api, is_read);
        [CACHE_CONTROL, VARY].map(|name| {
            let values = response.headers().get_all(name).iter();
            values.map(|value| value.to_str().unwrap()).collect::<Vec<_>>().join("|")
        })
    }

    #[test]
    fn a_read_is_kept_by_its_caller_alone() {
        assert_eq!(completed("", true, true), ["private, no-cache", "authorization"]);
        let immutable = ([(CACHE_CONTROL, IMMUTABLE)], "");
        assert_eq!(completed(immutable, true, true), ["private, max-age=86400, immutable", "authorization"]);
        assert_eq!(completed(Negotiated(""), true, true), ["private, no-cache", "accept|authorization"]);
        assert_eq!(completed("", false, true), ["", ""], "a page of the documentation");
    }

    #[test]
    fn errors_and_responses_to_writes_are_not_kept() {
        for (is_api, is_read) in [(true, true), (true, false), (false, true)] {
            assert_eq!(completed(ApiError::not_found("not found"), is_api, is_read), ["no-store", ""]);
        }
        assert_eq!(completed("", true, false), ["no-store", ""]);
    }
}
