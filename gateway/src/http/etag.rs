//! Conditional requests: JSON responses to GET carry a strong `ETag`, and a client that sends the same one in `If-None-Match`
//! gets 304.
//!
//! Not here: files and archives, whose tags git-svc makes.

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use ferrite_kit::headers::matches_etag;
use sha2::{Digest, Sha256};

use super::error::ApiError;
use super::json::CONTENT_TYPE_JSON;

/// Extension of a response: the tag of its body, where that is large and was made on a blocking thread.
#[derive(Clone, Debug)]
pub(crate) struct BodyTag(String);

impl BodyTag {
    /// Returns the tag of a body.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self(format!("\"{}\"", hex::encode(&Sha256::digest(bytes)[..16])))
    }
}

/// Middleware that tags JSON responses to GET.
pub(crate) async fn conditional(request: Request, next: Next) -> Response {
    let if_none_match: Vec<_> = request.headers().get_all(IF_NONE_MATCH).iter().cloned().collect();
    let is_get = request.method() == Method::GET;
    let response = next.run(request).await;
    if is_get && response.status() == StatusCode::OK && response.headers().get(CONTENT_TYPE) == Some(&CONTENT_TYPE_JSON)
    {
        with_etag(response, &if_none_match).await
    } else {
        response
    }
}

async fn with_etag(response: Response, if_none_match: &[HeaderValue]) -> Response {
    let (mut parts, body) = response.into_parts();
    // A JSON body is in memory as a whole already.
    let Ok(bytes) = to_bytes(body, usize::MAX).await else { return ApiError::internal().into_response() };
    let BodyTag(tag) = parts.extensions.remove::<BodyTag>().unwrap_or_else(|| BodyTag::of(&bytes));
    let matches = matches_etag(if_none_match, &tag);
    if let Ok(value) = HeaderValue::try_from(tag) {
        parts.headers.insert(ETAG, value);
    }
    if matches {
        parts.status = StatusCode::NOT_MODIFIED;
        parts.headers.remove(CONTENT_TYPE);
        parts.headers.remove(CONTENT_LENGTH);
        return Response::from_parts(parts, Body::empty());
    }
    Response::from_parts(parts, Body::from(bytes))
}
