//! Requests to git-svc for files and archives, their responses, and the entity tags of objects.

use std::time::Duration;

use axum::body::Body;
use axum::http::header::{ACCEPT_RANGES, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE, ETAG, HeaderName};
use axum::http::response::Parts;
use axum::http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use axum::response::IntoResponse;
use bytes::Bytes;
use futures_util::Stream;
use hyper::body::Incoming;
use tonic::Status;

use crate::api::access::ResolvedAccess;
use crate::api::call::ApiCall;
use crate::http::error::{ApiError, ApiResult};
use crate::http::etag::{BodyTag, Tagged};
use crate::upstream::client_headers::ClientHeaders;
use crate::upstream::git_client::{GitClientError, GitHttpClient, OVERLOADED, reason_of};
use crate::upstream::reauthorize::Revoked;
use ferrite_api_types::links::encode;

pub(super) const TRANSFER_ENCODING: HeaderName = HeaderName::from_static("content-transfer-encoding");

const ID_DIGITS: usize = 40;

/// Tags of JSON that depends only on the object's id, the repository, and the requested form.
pub(super) struct ObjectTags {
    /// The parts of a tag besides the object's id. They include the id of the repository, because a
    /// later one with the same name may not have the object.
    parts: [Vec<u8>; 4],
    /// The full id in the request, unless it uses another name for the object.
    asked: Option<String>,
}

impl ObjectTags {
    /// For a request that names an object by `text`.
    pub(super) fn new(kind: &str, access: &ResolvedAccess, text: &[u8], form: String) -> Self {
        let is_id = text.len() == ID_DIGITS && text.iter().all(u8::is_ascii_hexdigit);
        let asked = is_id.then(|| String::from_utf8_lossy(text).to_ascii_lowercase());
        let (repository, url) = (access.id.to_string(), access.urls.api());
        Self { parts: [kind.to_owned(), repository, url, form].map(String::into_bytes), asked }
    }

    fn of(&self, id: &str) -> BodyTag {
        let [kind, repository, url, form] = self.parts.each_ref().map(Vec::as_slice);
        BodyTag::of_parts(&[kind, repository, url, form, id.as_bytes()])
    }

    /// Returns a response without reading the object if the client already has it: an id always
    /// stands for the same object.
    pub(super) fn unchanged<R>(&self, headers: &HeaderMap) -> Option<Tagged<R>> {
        let tag = self.of(self.asked.as_deref()?);
        tag.is_named(headers).then(|| Tagged::unchanged(tag).immutable_if(true))
    }

    pub(super) fn tagged<R>(&self, id: &str, response: R) -> Tagged<R> {
        Tagged::new(self.of(id), response).immutable_if(self.asked.as_deref() == Some(id))
    }
}

fn copy_headers(from: &HeaderMap, names: &[HeaderName], to: &mut HeaderMap) {
    for name in names {
        if let Some(value) = from.get(name) {
            to.insert(name, value.clone());
        }
    }
}

/// Builds a request to git-svc for a body, with the headers `names` of the client; `None` if the
/// path is not a valid URI.
pub(crate) fn git_request(
    uri: &str,
    access: &ResolvedAccess,
    client: &HeaderMap,
    names: &[HeaderName],
) -> Option<Request<Body>> {
    let mut request = Request::builder().uri(uri).body(Body::empty()).ok()?;
    copy_headers(client, names, request.headers_mut());
    ClientHeaders::of(client).insert_into(request.headers_mut());
    access.grant.insert_into(request.headers_mut());
    Some(request)
}

/// Sends a request to git-svc and waits up to `timeout` for the response head. Also returns a
/// future that completes when the caller loses access, to guard the body. 503 if git-svc does not
/// respond in time.
pub(crate) async fn send_guarded(
    call: &ApiCall,
    access: &ResolvedAccess,
    request: Request<Body>,
    timeout: Duration,
) -> Result<(Response<Incoming>, Revoked), ApiError> {
    let mut revoked = call.reauthorizer.until_revoked(access.reauthorization.clone());
    let response = tokio::select! {
        response = tokio::time::timeout(timeout, send(&call.git_client, request)) => response,
        status = &mut revoked => return Err(status.into()),
    };
    Ok((response.map_err(|_| ApiError::unavailable())??, revoked))
}

/// Sends a request to git-svc. 503 if it does not respond.
pub(crate) async fn send(git_client: &GitHttpClient, request: Request<Body>) -> Result<Response<Incoming>, ApiError> {
    git_client.send(request).await.map_err(|error| match error {
        // A read can be repeated, whether the request or the response was lost.
        GitClientError::Unavailable(_) | GitClientError::NoStore(_) | GitClientError::Interrupted(_) => {
            ApiError::unavailable()
        }
        GitClientError::Path(_) | GitClientError::Token => ApiError::internal(),
    })
}

/// Converts a status of git-svc. An object that is too large for a response is a 422, because 413
/// would refer to the request.
pub(in crate::api) fn read_error(status: Status) -> ApiError {
    let mut error = ApiError::from(status);
    if error.status == StatusCode::PAYLOAD_TOO_LARGE {
        error.status = StatusCode::UNPROCESSABLE_ENTITY;
    }
    error
}

/// Converts an error response of git-svc; `not_found` is the message of a 404.
pub(crate) fn error_of_response(response: &Response<Incoming>, not_found: &'static str) -> ApiError {
    let reason = reason_of(response.headers());
    match response.status() {
        StatusCode::NOT_FOUND if reason == "REPOSITORY_NOT_FOUND" => ApiError::repository_not_found(),
        StatusCode::NOT_FOUND | StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY => {
            ApiError::not_found(not_found)
        }
        StatusCode::PAYLOAD_TOO_LARGE => ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "file is too large"),
        StatusCode::SERVICE_UNAVAILABLE if reason == OVERLOADED => {
            ApiError::busy("too many concurrent requests of this kind, try again")
        }
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {
            ApiError::unavailable()
        }
        status => {
            tracing::error!(%status, reason, "git-svc refused a request");
            ApiError::internal()
        }
    }
}

/// Converts a response of git-svc without a file or archive: 304 with its tag, 416 with the size in
/// `Content-Range`, or an error. `not_found` is the message of a 404, `out_of_range` that of a 416.
pub(crate) fn response_without_file(
    upstream: &Response<Incoming>,
    not_found: &'static str,
    out_of_range: &'static str,
) -> ApiResult {
    let (mut response, name) = match upstream.status() {
        StatusCode::NOT_MODIFIED => (StatusCode::NOT_MODIFIED.into_response(), ETAG),
        status @ StatusCode::RANGE_NOT_SATISFIABLE => {
            (ApiError::new(status, out_of_range).into_response(), CONTENT_RANGE)
        }
        _ => return Err(error_of_response(upstream, not_found)),
    };
    copy_headers(upstream.headers(), &[name], response.headers_mut());
    Ok(response)
}

/// Builds the response with a file or archive, or a range of it, from the head of git-svc's
/// response. A stream has no size hint, so axum adds no `Content-Length`: a response to HEAD has no
/// body, and the length of an archive can be unknown.
pub(crate) fn response_with_file<S>(upstream: &Parts, content: S) -> Response<Body>
where
    S: Stream<Item = Result<Bytes, hyper::Error>> + Send + 'static,
{
    let mut response = Response::new(Body::from_stream(content));
    *response.status_mut() = upstream.status;
    let headers = response.headers_mut();
    copy_headers(&upstream.headers, &[CONTENT_LENGTH, CONTENT_RANGE, ETAG], headers);
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    response
}

pub(crate) fn insert_content_disposition(headers: &mut HeaderMap, name: &[u8]) {
    if let Ok(value) = HeaderValue::try_from(content_disposition(name)) {
        headers.insert(CONTENT_DISPOSITION, value);
    }
}

/// Returns the `Content-Disposition` of a download (RFC 6266): an ASCII name, and the exact name in
/// `filename*` if it differs.
pub(super) fn content_disposition(name: &[u8]) -> String {
    let is_plain =
        |byte: &u8| (byte.is_ascii_graphic() || *byte == b' ') && !matches!(byte, b'"' | b'\\' | b'/' | b'%');
    let plain: String = name.iter().map(|byte| if is_plain(byte) { char::from(*byte) } else { '_' }).collect();
    if name.iter().all(is_plain) {
        return format!("attachment; filename=\"{plain}\"");
    }
    format!("attachment; filename=\"{plain}\"; filename*=UTF-8''{}", encode(name))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_file_keeps_its_status_its_length_and_its_tag() {
        let (mut upstream, ()) = Response::new(()).into_parts();
        upstream.status = StatusCode::PARTIAL_CONTENT;
        upstream.headers.insert(CONTENT_LENGTH, HeaderValue::from_static("3"));
        upstream.headers.insert(ETAG, HeaderValue::from_static("\"x\""));
        let response = response_with_file(&upstream, futures_util::stream::empty());
        assert_eq!(response.status(), StatusCode::PARTIAL_CONTENT);
        assert_eq!(response.headers()[CONTENT_LENGTH], "3");
        assert_eq!(response.headers()[ETAG], "\"x\"");
    }

    proptest! {
        #[test]
        fn any_name_is_a_valid_header(name in prop::collection::vec(any::<u8>(), 0..60)) {
            let value = content_disposition(&name);
            prop_assert!(HeaderValue::try_from(value.as_str()).is_ok());
            let plain = value.split('"').nth(1).unwrap();
            prop_assert!(!plain.contains(['/', '\\', '\r', '\n']));
        }
    }
}
