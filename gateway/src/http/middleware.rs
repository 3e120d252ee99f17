//! Middleware around the whole router: request ids, internal headers, limits per client, path
//! normalization, error bodies, and cache headers.

use std::borrow::Cow;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{CONTENT_LENGTH, X_CONTENT_TYPE_OPTIONS};
use axum::http::uri::PathAndQuery;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use ferrite_listener::{Peer, TrustedProxies};
use ferrite_proto::metadata;
use http_body::Body as _;
use percent_encoding::percent_decode_str;
use uuid::Uuid;

use super::caching;
use super::client_address::{ClientAddress, client_address, resolve};
use super::client_bounds::ClientBounds;
use super::error::{ApiError, render};
use super::query_token::take_token_from_query;
use super::unread_body::BodyWatch;
use ferrite_api_types::links::Links;

const REQUEST_ID: HeaderName = HeaderName::from_static(metadata::REQUEST_ID);
const CLIENT: HeaderName = HeaderName::from_static(metadata::CLIENT);
const API_PREFIX: &str = "/api/v1";
/// What a path can name below a commit.
const COMMIT_RESOURCES: [&str; 3] = ["pull", "status", "statuses"];

/// Extension of HEAD requests, which routes see as GET, so that handlers can skip an expensive
/// body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeadRequest;

#[derive(Debug)]
pub(crate) struct MiddlewareState {
    pub(crate) links: Links,
    pub(crate) allow_query_token: bool,
    pub(crate) trusted_proxies: TrustedProxies,
    pub(crate) client_bounds: ClientBounds,
}

/// Sets the id and the client address of a request, normalizes its path, and completes the
/// response.
pub(crate) async fn handle(State(state): State<Arc<MiddlewareState>>, mut request: Request, next: Next) -> Response {
    let id = request_id(request.headers());
    strip_internal_headers(request.headers_mut());
    request.headers_mut().insert(REQUEST_ID, id.clone());
    let peer = request.extensions().get::<Peer>().map(|Peer(peer)| peer.ip());
    if let Some(ClientAddress(address)) = resolve(peer, request.headers(), &state.trusted_proxies) {
        request.extensions_mut().insert(ClientAddress(address));
        request.headers_mut().extend(client_address(address).map(|counted| (CLIENT, counted)));
    }
    let body = BodyWatch::of(&mut request);
    let (is_head, is_read) =
        (request.method() == Method::HEAD, matches!(*request.method(), Method::GET | Method::HEAD));
    let is_api =
        request.uri().path().strip_prefix(API_PREFIX).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let response =
        if is_api { handle_api(&state, request, next).await } else { state.client_bounds.run(request, next).await };
    let mut response = render(response, &state.links);
    caching::complete(&mut response, is_api, is_read);
    if is_head && is_api {
        response = without_body(response);
    }
    if let Some(body) = body {
        body.finish(&mut response).await;
    }
    response.headers_mut().insert(REQUEST_ID, id);
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

async fn handle_api(state: &MiddlewareState, mut request: Request, next: Next) -> Response {
    match *request.method() {
        Method::OPTIONS => return StatusCode::OK.into_response(),
        // Handled as GET, for the same headers and the same tag; `handle` drops the body.
        Method::HEAD => {
            request.extensions_mut().insert(HeadRequest);
            *request.method_mut() = Method::GET;
        }
        _ => {}
    }
    take_token_from_query(&mut request, state.allow_query_token);
    match normalize_uri(request.method(), request.uri()) {
        Some(uri) => *request.uri_mut() = uri,
        None => return ApiError::not_found("not found").into_response(),
    }
    state.client_bounds.run(request, next).await
}

/// Returns the URI without a trailing slash in its path; `None` for empty or dot segments, also
/// encoded ones.
fn normalize_uri(method: &Method, uri: &Uri) -> Option<Uri> {
    let path = uri.path();
    let trimmed = path.strip_suffix('/').unwrap_or(path);
    if !is_file_write(method, trimmed) && has_empty_or_dot_segment(trimmed) {
        return None;
    }
    let trimmed = escape_revision(trimmed);
    if trimmed == path {
        return Some(uri.clone());
    }
    let mut parts = uri.clone().into_parts();
    let path_and_query = match uri.query() {
        Some(query) => format!("{trimmed}?{query}"),
        None => trimmed.into_owned(),
    };
    parts.path_and_query = Some(PathAndQuery::try_from(path_and_query).ok()?);
    Uri::from_parts(parts).ok()
}

/// Escapes the slashes of a revision that is followed by the name of a resource, as in
/// `commits/feature/x/status`: a route cannot end after a parameter with slashes.
fn escape_revision(path: &str) -> Cow<'_, str> {
    let mut parts = path.splitn(8, '/');
    let (operation, rest) = (parts.nth(6), parts.next().unwrap_or_default());
    let is_api = path.strip_prefix(API_PREFIX).is_some_and(|rest| rest.starts_with("/repos/"));
    if !is_api || operation != Some("commits") || !rest.contains('/') {
        return Cow::Borrowed(path);
    }
    let (revision, end) = match rest.rsplit_once('/') {
        Some((revision, end)) if COMMIT_RESOURCES.contains(&end) => (revision, Some(end)),
        _ => (rest, None),
    };
    let before = &path[..path.len() - rest.len()];
    let end = end.map(|end| format!("/{end}")).unwrap_or_default();
    Cow::Owned([before, &revision.replace('/', "%2F"), &end].concat())
}

fn has_empty_or_dot_segment(path: &str) -> bool {
    let decoded = Cow::from(percent_decode_str(path.strip_prefix('/').unwrap_or(path)));
    decoded.split(|byte| *byte == b'/').any(|segment| matches!(segment, b"" | b"." | b".."))
}

/// Whether the request writes or deletes a file. git-svc checks that file's path and names the
/// field in its error, so the middleware checks only the part before it.
fn is_file_write(method: &Method, path: &str) -> bool {
    if !matches!(*method, Method::PUT | Method::DELETE) {
        return false;
    }
    let mut parts = path.splitn(8, '/');
    let before: Vec<_> = parts.by_ref().take(7).collect();
    matches!(before.as_slice(), ["", "api", "v1", "repos", _, _, "contents"])
        && !has_empty_or_dot_segment(&before.join("/"))
}

/// Returns the client's request id if it is safe in logs and headers, otherwise a new one.
fn request_id(headers: &HeaderMap) -> HeaderValue {
    let is_sane = |value: &&HeaderValue| {
        let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        (1..=metadata::MAX_REQUEST_ID_BYTES).contains(&value.len()) && value.as_bytes().iter().all(is_plain)
    };
    let new = || {
        let mut text = Uuid::encode_buffer();
        HeaderValue::from_str(Uuid::new_v4().hyphenated().encode_lower(&mut text)).expect("a UUID is printable")
    };
    headers.get(REQUEST_ID).filter(is_sane).cloned().unwrap_or_else(new)
}

/// Removes headers that only Ferrite's own processes may send.
fn strip_internal_headers(headers: &mut HeaderMap) {
    let internal: Vec<_> = headers.keys().filter(|name| name.as_str().starts_with("ferrite-")).cloned().collect();
    for name in internal {
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

pub(crate) async fn unknown_path() -> ApiError {
    ApiError::not_found("not found")
}

pub(crate) async fn method_not_allowed() -> ApiError {
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "method not allowed")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn normalized(method: &Method, path: &str) -> Option<String> {
        normalize_uri(method, &path.parse().unwrap()).map(|uri| uri.to_string())
    }

    #[test]
    fn one_slash_at_the_end_is_accepted() {
        assert_eq!(normalized(&Method::GET, "/api/v1/user/"), Some("/api/v1/user".into()));
        assert_eq!(normalized(&Method::GET, "/api/v1/user/?a=b/"), Some("/api/v1/user?a=b/".into()));
        assert_eq!(normalized(&Method::GET, "/api/v1/user"), Some("/api/v1/user".into()));
        assert_eq!(normalized(&Method::GET, "/api/v1/user//"), None);
    }

    #[test]
    fn empty_and_dot_segments_are_refused_also_when_encoded() {
        for path in [
            "/api/v1//user",
            "/api/v1/repos/bob/../demo",
            "/api/v1/repos/bob/%2e%2E/demo",
            "/api/v1/repos/bob/demo/raw/main/a%2F..%2Fb",
            "/api/v1/repos/bob/demo/contents/./a",
            "/api/v1/repos/bob/demo/contents/a%2F%2Fb",
        ] {
            assert_eq!(normalized(&Method::GET, path), None, "{path}");
        }
    }

    #[test]
    fn the_path_of_a_file_to_write_is_not_checked_here() {
        for path in ["/api/v1/repos/bob/demo/contents/a/../b", "/api/v1/repos/bob/demo/contents/a//b"] {
            assert_eq!(normalized(&Method::PUT, path), Some(path.into()));
        }
        for path in
            ["/api/v1/repos/bob/../contents/a", "/api/v1/repos//demo/contents/a", "/api/v1/repos/bob/%2e/contents/a"]
        {
            assert_eq!(normalized(&Method::PUT, path), None, "{path}");
        }
    }

    #[test]
    fn a_request_id_is_kept_when_it_is_safe() {
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
    fn internal_headers_of_clients_are_removed() {
        let mut headers = HeaderMap::new();
        for name in [metadata::GRANT, metadata::SERVICE, metadata::CLIENT, "ferrite-other", "accept"] {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static("x"));
        }
        strip_internal_headers(&mut headers);
        assert_eq!(headers.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["accept"]);
    }

    #[test]
    fn slashes_of_a_revision_are_escaped_before_a_resource_of_its_commit() {
        for (path, expected) in [
            ("commits/feature/x", "commits/feature%2Fx"),
            ("commits/feature/x/status", "commits/feature%2Fx/status"),
            ("commits/feature%2Fx/statuses", "commits/feature%2Fx/statuses"),
            ("commits/feature%2Fstatus", "commits/feature%2Fstatus"),
            ("commits/status", "commits/status"),
            ("statuses/feature/x", "statuses/feature/x"),
        ] {
            let normalized = normalized(&Method::GET, &format!("/api/v1/repos/bob/demo/{path}"));
            assert_eq!(normalized.as_deref(), Some(&*format!("/api/v1/repos/bob/demo/{expected}")));
        }
        assert_eq!(
            normalized(&Method::GET, "/api/v1/users/a/b/c/commits/a/b"),
            Some("/api/v1/users/a/b/c/commits/a/b".into())
        );
    }

    proptest! {
        #[test]
        fn no_path_panics(path in "/[!$-;=@-Z_a-z~]{0,40}") {
            if let Ok(uri) = path.parse::<Uri>() {
                let _ = normalize_uri(&Method::GET, &uri);
                let _ = normalize_uri(&Method::PUT, &uri);
            }
        }
    }
}
