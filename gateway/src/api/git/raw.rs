//! Raw files, streamed from git-svc. Text is shown as plain text; binary files are offered as a
//! download.

use axum::Extension;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, IF_NONE_MATCH, IF_RANGE, RANGE};
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode};
use bytes::BytesMut;
use ferrite_api_types::schema::Schema;
use ferrite_proto::operation;
use ferrite_proto::raw::{FILE_IS_TEXT_HEADER, FILE_NAME_HEADER, TEXT_CHECK_BYTES, is_text};
use futures_util::{StreamExt, stream};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::json;

use super::response::{
    TRANSFER_ENCODING, git_request, insert_content_disposition, response_with_file, response_without_file, send_guarded,
};
use crate::api::access::ResolvedAccess;
use crate::api::call::{ApiCall, MaybeAuthenticated, operations};
use crate::http::error::{ApiError, ApiResult, FieldError};
use crate::http::filters::{Filter, QueryOf, filters};
use crate::http::headers::{Headers, RangeHeaders};
use crate::http::middleware::HeadRequest;
use crate::http::path::{RepoPath, decode};
use crate::http::query::Query;
use crate::http::response::{File, Media};
use crate::http::routes::variant;
use crate::upstream::clients::CALL_DEADLINE;
use ferrite_api_types::links::encode;

const NOT_FOUND: &str = "file does not exist";

operations! {
    "/api/v1/repos/{owner}/{repo}/raw/{*file}" => get get as operation::RAW;
    // Git LFS is not supported, so there are only pointers, which are files as others are.
    "/api/v1/repos/{owner}/{repo}/media/{*file}" => get get as variant(operation::RAW, "AsMedia");
    "/api/v1/repos/{owner}/{repo}/wiki/raw/{*file}" => get of_wiki as variant(operation::RAW, "OfWiki");
}

filters! {
    /// The revision of a raw file.
    struct RevisionFilter {
        /// The branch, tag or commit id; empty for the default branch. With this parameter the path
        /// is that of the file alone.
        revision as "ref": GivenText = "main",
    }
}

/// A text, not necessarily UTF-8, of which the empty one has a meaning.
enum GivenText {}

impl Filter for GivenText {
    type Value = Option<Vec<u8>>;

    fn read(query: &Query, name: &str) -> Result<Option<Vec<u8>>, FieldError> {
        Ok(query.bytes(name))
    }

    fn schema() -> Schema {
        json!({"type": "string"})
    }
}

enum Raw {}

impl Media for Raw {
    const TYPES: &'static [&'static str] = &["text/plain"];
}

async fn get(
    MaybeAuthenticated(call): MaybeAuthenticated,
    path: RepoPath,
    filters: QueryOf<RevisionFilter>,
    head_request: Option<Extension<HeadRequest>>,
    headers: Headers<RangeHeaders>,
) -> ApiResult<File<Raw>> {
    let access = call.access(&path, operation::RAW).await?;
    let RevisionFilter { revision } = filters.read()?;
    let revision = revision.map(|revision| format!("&revision={}", encode(&revision))).unwrap_or_default();
    let uri = format!("/git/{}/raw?path={}{revision}", access.id, encode(&path.rest));
    send(&call, &access, &uri, head_request.is_some(), &headers.map).await
}

/// Responds with a file on the default branch of the wiki.
async fn of_wiki(
    MaybeAuthenticated(call): MaybeAuthenticated,
    path: RepoPath,
    head_request: Option<Extension<HeadRequest>>,
    headers: Headers<RangeHeaders>,
) -> ApiResult<File<Raw>> {
    let access = call.wiki_access(&path, operation::RAW).await?;
    let file = path.rest.strip_prefix(b"raw/").unwrap_or_default();
    let uri = format!("/git/{}/raw?path={}&revision=", access.stored_id, encode(file));
    send(&call, &access, &uri, head_request.is_some(), &headers.map).await
}

/// Sends a file that git-svc has at `uri`.
async fn send(
    call: &ApiCall,
    access: &ResolvedAccess,
    uri: &str,
    is_head: bool,
    headers: &HeaderMap,
) -> ApiResult<File<Raw>> {
    // A response to HEAD has no bytes, so ranges do not apply.
    let names = if is_head { &[IF_NONE_MATCH][..] } else { &[IF_NONE_MATCH, IF_RANGE, RANGE] };
    let request = git_request(uri, access, headers, names).ok_or(ApiError::not_found(NOT_FOUND))?;
    // The deadline is for the headers: the body takes as long as the client reads.
    let (response, revoked) = send_guarded(call, access, request, CALL_DEADLINE).await?;
    match response.status() {
        StatusCode::OK | StatusCode::PARTIAL_CONTENT => {
            let response = tokio::time::timeout(CALL_DEADLINE, file_response(response)).await;
            let response = response.map_err(|_| ApiError::unavailable())??;
            Ok(File::from(response.map(|body| call.reauthorizer.guard(body, revoked))))
        }
        _ => response_without_file(&response, NOT_FOUND, "range starts beyond the end of the file").map(File::from),
    }
}

/// Streams a file to the client. Buffers its beginning to detect whether it is text.
async fn file_response(upstream: Response<Incoming>) -> ApiResult {
    let (parts, mut body) = upstream.into_parts();
    let mut start = BytesMut::new();
    while start.len() < TEXT_CHECK_BYTES {
        let Some(frame) = body.frame().await else { break };
        let frame = frame.map_err(|error| {
            tracing::warn!(%error, "file from git-svc ended early");
            ApiError::unavailable()
        })?;
        if let Some(data) = frame.data_ref() {
            start.extend_from_slice(data);
        }
    }
    let is_text = match parts.headers.get(FILE_IS_TEXT_HEADER) {
        Some(value) => value == "true",
        None => is_text(&start),
    };
    let start = (!start.is_empty()).then(|| Ok(start.freeze()));
    let mut response = response_with_file(&parts, stream::iter(start).chain(body.into_data_stream()));
    insert_file_headers(response.headers_mut(), &parts.headers, is_text);
    Ok(response)
}

fn insert_file_headers(headers: &mut HeaderMap, from: &HeaderMap, is_text: bool) {
    // Browsers that open the URL run no scripts in the file.
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; sandbox"));
    if is_text {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        return;
    }
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("binary"));
    let name = from.get(FILE_NAME_HEADER).and_then(|value| value.to_str().ok()).map(decode).unwrap_or_default();
    insert_content_disposition(headers, &name);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binary_file_is_offered_under_its_name() {
        let mut from = HeaderMap::new();
        from.insert(FILE_NAME_HEADER, HeaderValue::from_static("bin.dat"));
        let mut headers = HeaderMap::new();
        insert_file_headers(&mut headers, &from, false);
        assert_eq!(headers["content-disposition"], "attachment; filename=\"bin.dat\"");
        assert_eq!(headers[CONTENT_TYPE], "text/plain");
    }
}
