//! Conditional requests: JSON answers to GET carry a strong `ETag`, and a client that has the same one gets 304.

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};

use super::error::ApiError;
use super::json::CONTENT_TYPE_JSON;

/// Middleware for `axum::middleware::from_fn`.
pub(crate) async fn conditional(request: Request, next: Next) -> Response {
    let asked = request.headers().get(IF_NONE_MATCH).cloned();
    let is_get = request.method() == Method::GET;
    let response = next.run(request).await;
    if is_get && response.status() == StatusCode::OK && response.headers().get(CONTENT_TYPE) == Some(&CONTENT_TYPE_JSON)
    {
        tagged(response, asked.as_ref()).await
    } else {
        response
    }
}

async fn tagged(response: Response, asked: Option<&HeaderValue>) -> Response {
    let (mut parts, body) = response.into_parts();
    // JSON answers are whole in memory already.
    let Ok(bytes) = to_bytes(body, usize::MAX).await else { return ApiError::internal().into_response() };
    let tag = format!("\"{}\"", hex::encode(&Sha256::digest(&bytes)[..16]));
    let matches = asked.is_some_and(|asked| is_match(asked, &tag));
    if let Ok(value) = HeaderValue::try_from(tag) {
        parts.headers.insert(ETAG, value);
    }
    if matches {
        parts.status = StatusCode::NOT_MODIFIED;
        without_body(&mut parts.headers);
        return Response::from_parts(parts, Body::empty());
    }
    Response::from_parts(parts, Body::from(bytes))
}

fn without_body(headers: &mut HeaderMap) {
    headers.remove(CONTENT_TYPE);
    headers.remove(CONTENT_LENGTH);
}

/// Whether `If-None-Match` names `tag`; the comparison is weak, as RFC 9110 wants it here.
fn is_match(asked: &HeaderValue, tag: &str) -> bool {
    let Ok(asked) = asked.to_str() else { return false };
    asked.split(',').map(str::trim).any(|one| one == "*" || one.strip_prefix("W/").unwrap_or(one) == tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_matches_itself_in_a_list_and_weakly() {
        for (asked, expected) in [
            ("\"a\"", true),
            ("W/\"a\"", true),
            ("\"b\", \"a\"", true),
            ("*", true),
            ("\"b\"", false),
            ("a", false),
            ("", false),
        ] {
            assert_eq!(is_match(&HeaderValue::from_static(asked), "\"a\""), expected, "{asked}");
        }
    }
}
