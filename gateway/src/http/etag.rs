//! Conditional requests: JSON responses to GET carry a strong `ETag`, and a client that sends the same one in `If-None-Match`
//! gets 304.
//!
//! Not here: files and archives, whose tags git-svc makes.

use axum::body::Body;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, ETAG};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use ferrite_core::headers::matches_etag;

/// The tag of a body. That of a large one is made on a blocking thread.
#[derive(Clone, Debug)]
pub(crate) struct BodyTag(String);

impl BodyTag {
    /// Returns the tag of a body.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self(format!("\"{}\"", hex::encode(&blake3::hash(bytes).as_bytes()[..16])))
    }
}

/// Returns `response` with `body` and its tag, which is made here unless it is given; 304 without a body if `if_none_match` has the tag.
pub(crate) fn conditional(
    mut response: Response,
    body: impl AsRef<[u8]> + Into<Body>,
    tag: Option<BodyTag>,
    if_none_match: &[HeaderValue],
) -> Response {
    let BodyTag(tag) = tag.unwrap_or_else(|| BodyTag::of(body.as_ref()));
    let matches = matches_etag(if_none_match, &tag);
    if let Ok(value) = HeaderValue::try_from(tag) {
        response.headers_mut().insert(ETAG, value);
    }
    if matches {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response.headers_mut().remove(CONTENT_TYPE);
        response.headers_mut().remove(CONTENT_LENGTH);
        return response.map(|_| Body::empty());
    }
    response.map(|_| body.into())
}
