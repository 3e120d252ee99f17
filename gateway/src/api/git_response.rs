//! Files and archives of git-svc: the request for a body, and the responses that files and archives have in common.

use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CONTENT_RANGE, ETAG, HeaderName};
use axum::http::{HeaderMap, Request, Response, StatusCode};
use axum::response::IntoResponse;
use ferrite_proto::metadata;
use hyper::body::Incoming;
use tonic::Status;

use super::access::Access;
use super::state::ApiState;
use crate::http::error::ApiError;
use crate::upstream::git_client::GitHttpClient;
use crate::upstream::reauthorize::Revoked;
use ferrite_rest::links::encode;

pub(super) const TRANSFER_ENCODING: HeaderName = HeaderName::from_static("content-transfer-encoding");

/// Makes a request to git-svc for a body, with the headers `names` of the client; `None` for a path that is no URI.
pub(super) fn git_request(
    uri: &str,
    access: &Access,
    client: &HeaderMap,
    names: &[HeaderName],
) -> Option<Request<Body>> {
    let mut request = Request::builder().uri(uri);
    let always = [metadata::REQUEST_ID, metadata::CLIENT].map(HeaderName::from_static);
    for name in names.iter().chain(&always) {
        if let Some(value) = client.get(name) {
            request = request.header(name, value);
        }
    }
    let mut request = request.body(Body::empty()).ok()?;
    access.grant.insert_into(request.headers_mut());
    Some(request)
}

/// Sends a request to git-svc for a body, and waits at most `timeout` for the head of the response. Also returns the future that completes
/// when the caller loses its access, for the guard of the body.
///
/// # Errors
/// 503 when git-svc does not respond in time, and the error of a caller that lost its access meanwhile.
pub(super) async fn send_guarded(
    api: &ApiState,
    access: &Access,
    request: Request<Body>,
    timeout: Duration,
) -> Result<(Response<Incoming>, Revoked), ApiError> {
    let mut revoked = api.reauthorizer.until_revoked(access.reauthorization.clone());
    let response = tokio::select! {
        response = tokio::time::timeout(timeout, send(&api.git_client, request)) => response,
        status = &mut revoked => return Err(status.into()),
    };
    Ok((response.map_err(|_| ApiError::unavailable())??, revoked))
}

/// Sends a request to git-svc.
///
/// # Errors
/// 503 when git-svc does not respond.
pub(super) async fn send(git_client: &GitHttpClient, request: Request<Body>) -> Result<Response<Incoming>, ApiError> {
    git_client.send(request).await.map_err(|error| {
        tracing::warn!(%error, "a body cannot be read from git-svc");
        // A read can be repeated, whether the request was lost or the response.
        if error.status() == StatusCode::INTERNAL_SERVER_ERROR { ApiError::internal() } else { ApiError::unavailable() }
    })
}

/// Converts a status of git-svc. An object that is too large for a response is 422: 413 would be about the request.
pub(super) fn read_error(status: Status) -> ApiError {
    let mut error = ApiError::from(status);
    if error.status == StatusCode::PAYLOAD_TOO_LARGE {
        error.status = StatusCode::UNPROCESSABLE_ENTITY;
    }
    error
}

/// Converts an error response of git-svc; `not_found` is the message of a 404.
pub(super) fn error_of_response(response: &Response<Incoming>, not_found: &'static str) -> ApiError {
    let reason = response.headers().get(metadata::REASON).and_then(|value| value.to_str().ok()).unwrap_or_default();
    match response.status() {
        StatusCode::NOT_FOUND if reason == "REPOSITORY_NOT_FOUND" => ApiError::repository_not_found(),
        StatusCode::NOT_FOUND | StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY => {
            ApiError::not_found(not_found)
        }
        StatusCode::PAYLOAD_TOO_LARGE => ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "file is too large"),
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {
            ApiError::unavailable()
        }
        status => {
            tracing::error!(%status, reason, "git-svc refused to give a body");
            ApiError::internal()
        }
    }
}

/// Makes a 304 with the tag of git-svc.
pub(super) fn not_modified(upstream: &Response<Incoming>) -> Response<Body> {
    let mut response = StatusCode::NOT_MODIFIED.into_response();
    if let Some(tag) = upstream.headers().get(ETAG) {
        response.headers_mut().insert(ETAG, tag.clone());
    }
    response
}

/// Makes a 416 with the size of the body in `Content-Range`.
pub(super) fn range_not_satisfiable(upstream: &Response<Incoming>, message: &'static str) -> Response<Body> {
    let mut response = ApiError::new(StatusCode::RANGE_NOT_SATISFIABLE, message).into_response();
    if let Some(range) = upstream.headers().get(CONTENT_RANGE) {
        response.headers_mut().insert(CONTENT_RANGE, range.clone());
    }
    response
}

/// Returns the `Content-Disposition` of a download (RFC 6266): an ASCII name, and the exact one in `filename*` if they differ.
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
    use axum::http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

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
