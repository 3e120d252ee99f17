use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::{
    ACCEPT_RANGES, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
    HeaderName, IF_NONE_MATCH, IF_RANGE, RANGE,
};
use axum::http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use axum::response::IntoResponse;
use bytes::{Bytes, BytesMut};
use ferrite_proto::raw::{
    FILE_IS_TEXT_HEADER as FILE_TEXT, FILE_NAME_HEADER as FILE_NAME, TEXT_CHECK_BYTES as SNIFFED, is_text,
};
use ferrite_proto::{metadata, operation};
use futures_util::{StreamExt, stream};
use http_body_util::{BodyExt, BodyStream};
use hyper::body::Incoming;

use super::access::Access;
use crate::auth::{Headers, Signed};
use crate::clients::DEADLINE;
use crate::door::HeadersOnly;
use crate::error::ApiError;
use crate::links::encode;
use crate::path::{RepoPath, decode};
use crate::routes::routes;
use crate::state::Gateway;

const REASON: &str = "ferrite-reason";
const MISSING: &str = "file does not exist";
pub(super) const TRANSFER_ENCODING: HeaderName = HeaderName::from_static("content-transfer-encoding");

routes! { Gateway:
    "/api/v1/repos/{owner}/{repo}/raw/{*file}" => get get;
}

async fn get(
    State(gateway): State<Gateway>,
    Signed(call): Signed,
    path: RepoPath,
    headers_only: Option<Extension<HeadersOnly>>,
    Headers(headers): Headers,
) -> Result<Response<Body>, ApiError> {
    let access = gateway.access(&call, &path, operation::RAW).await?;
    let uri = format!("/git/{}/raw?path={}", access.id, encode(&path.rest));
    // Only who gets the bytes can ask for some of them.
    let names = if headers_only.is_none() { &[IF_NONE_MATCH, IF_RANGE, RANGE][..] } else { &[IF_NONE_MATCH] };
    let request = request(&uri, &access, &headers, names).ok_or(ApiError::not_found(MISSING))?;
    // The file itself may take as long as the client does.
    let answer =
        tokio::time::timeout(DEADLINE, opened(&gateway, request)).await.map_err(|_| ApiError::unavailable())??;
    match answer.status() {
        StatusCode::OK | StatusCode::PARTIAL_CONTENT => {
            tokio::time::timeout(DEADLINE, file(answer)).await.map_err(|_| ApiError::unavailable())?
        }
        StatusCode::NOT_MODIFIED => Ok(not_modified(&answer)),
        StatusCode::RANGE_NOT_SATISFIABLE => Ok(beyond(&answer, "range begins behind the end of the file")),
        _ => Err(refused(&answer, MISSING)),
    }
}

/// A range that begins behind the end: the client hears where that is.
pub(super) fn beyond(answer: &Response<Incoming>, message: &'static str) -> Response<Body> {
    let mut response = ApiError::new(StatusCode::RANGE_NOT_SATISFIABLE, message).into_response();
    if let Some(range) = answer.headers().get(CONTENT_RANGE) {
        response.headers_mut().insert(CONTENT_RANGE, range.clone());
    }
    response
}

/// A request to git-svc for a body, with what the client says about it in headers of these names.
pub(super) fn request(uri: &str, access: &Access, client: &HeaderMap, names: &[HeaderName]) -> Option<Request<Body>> {
    let mut request = Request::builder().uri(uri).header(metadata::GRANT, access.grant.as_str());
    let always = [metadata::REQUEST_ID, metadata::CLIENT].map(HeaderName::from_static);
    for name in names.iter().chain(&always) {
        if let Some(value) = client.get(name) {
            request = request.header(name, value);
        }
    }
    request.body(Body::empty()).ok()
}

pub(super) async fn opened(gateway: &Gateway, request: Request<Body>) -> Result<Response<Incoming>, ApiError> {
    gateway.bulk.send(request).await.map_err(|error| {
        tracing::warn!(%error, "a body cannot be read from git-svc");
        // Reading again harms nothing, whether the request was lost or the answer.
        if error.status() == StatusCode::INTERNAL_SERVER_ERROR { ApiError::internal() } else { ApiError::unavailable() }
    })
}

/// What the client hears of a body that git-svc does not give; `missing` says what is not there.
pub(super) fn refused(answer: &Response<Incoming>, missing: &'static str) -> ApiError {
    let reason = answer.headers().get(REASON).and_then(|value| value.to_str().ok()).unwrap_or_default();
    match answer.status() {
        StatusCode::NOT_FOUND if reason == "REPOSITORY_NOT_FOUND" => ApiError::repository_not_found(),
        StatusCode::NOT_FOUND | StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY => {
            ApiError::not_found(missing)
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

pub(super) fn not_modified(answer: &Response<Incoming>) -> Response<Body> {
    let mut response = StatusCode::NOT_MODIFIED.into_response();
    if let Some(tag) = answer.headers().get(ETAG) {
        response.headers_mut().insert(ETAG, tag.clone());
    }
    response
}

/// Passes the file on as it comes; only its beginning is held back to see what it is.
async fn file(answer: Response<Incoming>) -> Result<Response<Body>, ApiError> {
    let (parts, mut body) = answer.into_parts();
    let mut start = BytesMut::new();
    while start.len() < SNIFFED {
        let Some(frame) = body.frame().await else { break };
        let frame = frame.map_err(|error| {
            tracing::warn!(%error, "a file from git-svc ended early");
            ApiError::unavailable()
        })?;
        if let Some(data) = frame.data_ref() {
            start.extend_from_slice(data);
        }
    }
    let is_text = match parts.headers.get(FILE_TEXT) {
        Some(told) => told == "true",
        None => is_text(&start),
    };
    let headers = headers(&parts.headers, is_text);
    let rest =
        BodyStream::new(body).filter_map(|frame| async { frame.map(|frame| frame.into_data().ok()).transpose() });
    let start = (!start.is_empty()).then(|| Ok::<Bytes, hyper::Error>(start.freeze()));
    let mut response = Response::new(Body::from_stream(stream::iter(start).chain(rest)));
    *response.status_mut() = parts.status;
    *response.headers_mut() = headers;
    Ok(response)
}

fn headers(from: &HeaderMap, is_text: bool) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    for name in [CONTENT_LENGTH, CONTENT_RANGE, ETAG] {
        if let Some(value) = from.get(&name) {
            headers.insert(name, value.clone());
        }
    }
    // A browser that opens the address runs nothing.
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; sandbox"));
    if is_text {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        return headers;
    }
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("binary"));
    let name = from.get(FILE_NAME).and_then(|value| value.to_str().ok()).map(decode).unwrap_or_default();
    if let Ok(value) = HeaderValue::try_from(disposition(&name)) {
        headers.insert(CONTENT_DISPOSITION, value);
    }
    headers
}

/// The header that offers a file for saving, by RFC 6266: a plain name for all, the exact one for those who read it.
pub(super) fn disposition(name: &[u8]) -> String {
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
    fn a_binary_file_is_offered_under_its_name() {
        let mut from = HeaderMap::new();
        from.insert(FILE_NAME, HeaderValue::from_static("bin.dat"));
        from.insert(ETAG, HeaderValue::from_static("\"x\""));
        from.insert(CONTENT_LENGTH, HeaderValue::from_static("3"));
        let headers = headers(&from, false);
        assert_eq!(headers[CONTENT_DISPOSITION], "attachment; filename=\"bin.dat\"");
        assert_eq!(headers[CONTENT_TYPE], "text/plain");
        assert_eq!(
            (&headers[ETAG], &headers[CONTENT_LENGTH]),
            (&HeaderValue::from_static("\"x\""), &HeaderValue::from_static("3"))
        );
    }

    proptest! {
        #[test]
        fn any_name_fits_into_the_header(name in prop::collection::vec(any::<u8>(), 0..60)) {
            let value = disposition(&name);
            prop_assert!(HeaderValue::try_from(value.as_str()).is_ok());
            let plain = value.split('"').nth(1).unwrap();
            prop_assert!(!plain.contains(['/', '\\', '\r', '\n']));
        }
    }
}
