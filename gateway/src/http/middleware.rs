//! What every request passes on its way in, and every response on its way out.

use std::any::Any;
use std::net::{IpAddr, Ipv6Addr};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{CONTENT_LENGTH, X_CONTENT_TYPE_OPTIONS};
use axum::http::uri::PathAndQuery;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use ferrite_kit::serve::Peer;
use ferrite_proto::metadata;
use http_body::Body as _;

use super::error::{ApiError, render};
use super::path::decode;
use super::query_token;
use crate::state::Gateway;

const REQUEST_ID: HeaderName = HeaderName::from_static(metadata::REQUEST_ID);
const CLIENT: HeaderName = HeaderName::from_static(metadata::CLIENT);
const MAX_ID_BYTES: usize = 128;
const API: &str = "/api/v1";

/// Marks a request whose answer loses its body on the way out, for those who would do much for one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeadersOnly;

/// Middleware around the whole router: request ids, headers that only we may send, paths as the routes expect them, and the bodies
/// of refusals.
pub(crate) async fn pass(State(gateway): State<Gateway>, mut request: Request, next: Next) -> Response {
    let id = request_id(request.headers());
    strip(request.headers_mut());
    request.headers_mut().insert(REQUEST_ID, id.clone());
    let client = request.extensions().get::<Peer>().and_then(|Peer(peer)| client(peer.ip()));
    if let Some(client) = client {
        request.headers_mut().insert(CLIENT, client);
    }
    let is_head = request.method() == Method::HEAD;
    let is_api = request.uri().path().strip_prefix(API).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let response = if is_api { api(&gateway, request, next).await } else { next.run(request).await };
    let mut response = render(response, &gateway.links);
    if is_head && is_api {
        response = without_body(response);
    }
    response.headers_mut().insert(REQUEST_ID, id);
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

async fn api(gateway: &Gateway, mut request: Request, next: Next) -> Response {
    match *request.method() {
        Method::OPTIONS => return StatusCode::OK.into_response(),
        // The same work and the same tag as GET; the body is dropped on the way out.
        Method::HEAD => {
            request.extensions_mut().insert(HeadersOnly);
            *request.method_mut() = Method::GET;
        }
        _ => {}
    }
    query_token::settle(&mut request, gateway.allow_query_token);
    match mended(request.method(), request.uri()) {
        Some(uri) => *request.uri_mut() = uri,
        None => return ApiError::not_found("not found").into_response(),
    }
    next.run(request).await
}

/// The URI without a slash at its end, or `None` for a path with empty or dot segments, however they are written.
fn mended(method: &Method, uri: &Uri) -> Option<Uri> {
    let path = uri.path();
    let trimmed = path.strip_suffix('/').unwrap_or(path);
    if !is_file_write(method, trimmed) && has_odd_segment(trimmed) {
        return None;
    }
    if trimmed.len() == path.len() {
        return Some(uri.clone());
    }
    let mut parts = uri.clone().into_parts();
    let path_and_query = match uri.query() {
        Some(query) => format!("{trimmed}?{query}"),
        None => trimmed.to_owned(),
    };
    parts.path_and_query = Some(PathAndQuery::try_from(path_and_query).ok()?);
    Uri::from_parts(parts).ok()
}

fn has_odd_segment(path: &str) -> bool {
    let decoded = decode(path.strip_prefix('/').unwrap_or(path));
    decoded.split(|byte| *byte == b'/').any(|segment| matches!(segment, b"" | b"." | b".."))
}

/// Writing or removing a file is refused by git-svc, which names the field; only what comes before the file's path is looked at here.
fn is_file_write(method: &Method, path: &str) -> bool {
    if !matches!(*method, Method::PUT | Method::DELETE) {
        return false;
    }
    let mut parts = path.splitn(8, '/');
    let before: Vec<_> = parts.by_ref().take(7).collect();
    matches!(before.as_slice(), ["", "api", "v1", "repos", _, _, "contents"]) && !has_odd_segment(&before.join("/"))
}

/// The client's id where it is harmless in logs and headers, else one of ours.
fn request_id(headers: &HeaderMap) -> HeaderValue {
    let is_sane = |value: &&HeaderValue| {
        let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        (1..=MAX_ID_BYTES).contains(&value.len()) && value.as_bytes().iter().all(is_plain)
    };
    headers
        .get(REQUEST_ID)
        .filter(is_sane)
        .cloned()
        .unwrap_or_else(|| HeaderValue::try_from(uuid::Uuid::new_v4().to_string()).expect("a UUID is printable"))
}

/// What stands for a client where its mistakes are counted: its address, or for IPv6 the network, of which a client has all.
pub(crate) fn client(address: IpAddr) -> Option<HeaderValue> {
    let counted = match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
        address @ IpAddr::V4(_) => address,
    };
    HeaderValue::try_from(counted.to_string()).ok()
}

/// Removes headers that only Ferrite's own processes may send.
fn strip(headers: &mut HeaderMap) {
    let ours: Vec<_> = headers.keys().filter(|name| name.as_str().starts_with("ferrite-")).cloned().collect();
    for name in ours {
        headers.remove(name);
    }
}

fn without_body(response: Response) -> Response {
    let (mut parts, body) = response.into_parts();
    if let Some(length) = body.size_hint().exact()
        && !parts.status.is_informational()
        && !matches!(parts.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
    {
        parts.headers.entry(CONTENT_LENGTH).or_insert(HeaderValue::from(length));
    }
    Response::from_parts(parts, Body::empty())
}

/// No route has the path.
pub(crate) async fn unknown_path() -> ApiError {
    ApiError::not_found("not found")
}

/// A route has the path, and not the method.
pub(crate) async fn wrong_method() -> ApiError {
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "method not allowed")
}

/// Answers for a handler that panicked.
#[expect(clippy::needless_pass_by_value, reason = "the signature is the panic layer's")]
pub(crate) fn contain_panic(panic: Box<dyn Any + Send>) -> Response {
    let message = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_default();
    tracing::error!(message, "a request panicked");
    metrics::counter!("ferrite_panics_total").increment(1);
    ApiError::internal().into_response()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn mend(method: &Method, path: &str) -> Option<String> {
        mended(method, &path.parse().unwrap()).map(|uri| uri.to_string())
    }

    #[test]
    fn one_slash_at_the_end_is_accepted() {
        assert_eq!(mend(&Method::GET, "/api/v1/user/"), Some("/api/v1/user".into()));
        assert_eq!(mend(&Method::GET, "/api/v1/user/?a=b/"), Some("/api/v1/user?a=b/".into()));
        assert_eq!(mend(&Method::GET, "/api/v1/user"), Some("/api/v1/user".into()));
        assert_eq!(mend(&Method::GET, "/api/v1/user//"), None);
    }

    #[test]
    fn empty_and_dot_segments_lead_nowhere_however_written() {
        for path in [
            "/api/v1//user",
            "/api/v1/repos/bob/../demo",
            "/api/v1/repos/bob/%2e%2E/demo",
            "/api/v1/repos/bob/demo/raw/main/a%2F..%2Fb",
            "/api/v1/repos/bob/demo/contents/./a",
            "/api/v1/repos/bob/demo/contents/a%2F%2Fb",
        ] {
            assert_eq!(mend(&Method::GET, path), None, "{path}");
        }
    }

    #[test]
    fn the_path_of_a_file_to_write_is_left_to_its_judge() {
        for path in ["/api/v1/repos/bob/demo/contents/a/../b", "/api/v1/repos/bob/demo/contents/a//b"] {
            assert_eq!(mend(&Method::PUT, path), Some(path.into()));
        }
        for path in
            ["/api/v1/repos/bob/../contents/a", "/api/v1/repos//demo/contents/a", "/api/v1/repos/bob/%2e/contents/a"]
        {
            assert_eq!(mend(&Method::PUT, path), None, "{path}");
        }
    }

    #[test]
    fn a_request_id_is_kept_when_it_is_harmless() {
        let id = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(REQUEST_ID, HeaderValue::from_static(text));
            request_id(&headers)
        };
        assert_eq!(id("abc-1.2_3"), "abc-1.2_3");
        for wrong in ["", "a b", "<x>", "a\"b"] {
            assert_eq!(id(wrong).len(), 36, "{wrong}");
        }
        assert_eq!(request_id(&HeaderMap::new()).len(), 36);
    }

    #[test]
    fn our_own_metadata_is_not_taken_from_outside() {
        let mut headers = HeaderMap::new();
        for name in [metadata::GRANT, metadata::SERVICE, metadata::CLIENT, "ferrite-other", "accept"] {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static("x"));
        }
        strip(&mut headers);
        assert_eq!(headers.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["accept"]);
    }

    #[test]
    fn a_client_is_its_address_or_its_network() {
        for (address, expected) in [
            ("192.0.2.7", "192.0.2.7"),
            ("::ffff:192.0.2.7", "192.0.2.7"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
            ("::1", "::"),
        ] {
            assert_eq!(client(address.parse().unwrap()).unwrap(), expected);
        }
    }

    proptest! {
        #[test]
        fn no_path_panics(path in "/[!$-;=@-Z_a-z~]{0,40}") {
            if let Ok(uri) = path.parse::<Uri>() {
                let _ = mended(&Method::GET, &uri);
                let _ = mended(&Method::PUT, &uri);
            }
        }
    }
}
