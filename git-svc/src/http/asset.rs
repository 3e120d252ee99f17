//! Handlers of release assets: upload and download, also of a range.

use std::{io::SeekFrom, time::Duration};

use axum::{body::Body, response::Response};
use ferrite_core::headers::matches_etag;
use ferrite_proto::{
    asset::{FILE_SHA256_HEADER, FILE_SIZE_HEADER},
    id::RepositoryId,
    operation::{ASSET, UPLOAD_ASSET},
};
use git_store::{
    disk::assets::{AssetFileId, AssetUpload, StoredAsset, open_asset},
    types::error::GitError,
};
use http::{HeaderValue, StatusCode, header};
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _};
use tokio_util::io::ReaderStream;

use super::{
    error_response::ErrorResponse,
    file_response::FileHead,
    headers::{RepositoryRequest, insert_header},
    query,
    range::requested_range,
};
use crate::{admission::limiter::ClientKey, rpc_error::RpcError, state::AppState, transfer::request_body::RequestBody};

/// Limit on one chunk of a download.
const CHUNK_BYTES: usize = 128 << 10;
/// How long to read the rest of a rejected upload, so that its sender gets to read the response.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);
const SHA256_DIGITS: usize = 64;

/// `PUT /git/{id}/asset?file=…&max_bytes=…`: stores the body under a new file id. Called by
/// services only, which choose the id and the limit.
pub(super) async fn upload(
    RepositoryRequest { state, id, caller, request }: RepositoryRequest,
) -> Result<Response, ErrorResponse> {
    caller.require_service()?;
    let grant = state.authorize_as(&caller, UPLOAD_ASSET, id).await?;
    let query = request.uri().query().unwrap_or_default();
    let (file, limit) = (file_id(query)?, max_bytes(query)?);
    let client = ClientKey::of(&caller, &grant, request.headers());
    let limits = &state.transfers.limits;
    let mut body = RequestBody::plain(limits, request.into_body(), limit);
    let permit = state.limiters.upload.acquire(id, &client).await?;
    let received = tokio::time::timeout(limits.total, receive(&state, id, file, &mut body)).await;
    drop(permit);
    let received = received.unwrap_or(Err(GitError::TimedOut { what: "the upload" }));
    let stored = match received {
        Ok(stored) => stored,
        Err(error) => {
            // In a separate task, because the sender reads the response while still sending.
            state.life.spawn_for_request("drain", async move {
                drop(tokio::time::timeout(DRAIN_TIMEOUT, body.discard()).await);
            });
            return Err(error.into());
        }
    };
    metrics::counter!("ferrite_git_asset_uploads_total").increment(1);
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::CREATED;
    let headers = response.headers_mut();
    headers.insert(FILE_SIZE_HEADER, HeaderValue::from(stored.size));
    insert_header(headers, header::HeaderName::from_static(FILE_SHA256_HEADER), &stored.sha256);
    Ok(response)
}

async fn receive(
    state: &AppState,
    id: RepositoryId,
    file: AssetFileId,
    body: &mut RequestBody,
) -> Result<StoredAsset, GitError> {
    let mut upload = AssetUpload::begin(&state.store, id, file).await?;
    while let Some(bytes) = body.next().await? {
        upload.write(&bytes).await?;
    }
    upload.finish().await
}

/// `GET /git/{id}/asset?file=…&sha256=…`: a file or a range of it. The hash is its entity tag.
pub(super) async fn download(
    RepositoryRequest { state, id, caller, request }: RepositoryRequest,
) -> Result<Response, ErrorResponse> {
    state.authorize_as(&caller, ASSET, id).await?;
    let query = request.uri().query().unwrap_or_default();
    let (file, etag) = (file_id(query)?, etag(query)?);
    let head = FileHead::new(&etag);
    if matches_etag(request.headers().get_all(header::IF_NONE_MATCH), &etag) {
        return Ok(head.not_modified());
    }
    let (mut file, size) = open_asset(&state.store, id, &file).await?;
    let range = requested_range(request.method(), request.headers(), &etag);
    let Some((start, end)) = range.map_or(Some((0, size)), |range| range.within(size)) else {
        return Ok(head.not_satisfiable(size));
    };
    if start > 0 {
        file.seek(SeekFrom::Start(start)).await.map_err(GitError::io("reading a release asset"))?;
    }
    let body = Body::from_stream(ReaderStream::with_capacity(file.take(end - start), CHUNK_BYTES));
    Ok(if range.is_some() { head.part(body, start..end, size) } else { head.whole(body, Some(size)) })
}

fn file_id(query: &str) -> Result<AssetFileId, GitError> {
    let id = query::value(query, "file").and_then(|id| AssetFileId::parse(&id));
    id.ok_or_else(|| GitError::invalid("file", "invalid", "must be 32 lowercase hexadecimal digits"))
}

fn max_bytes(query: &str) -> Result<u64, GitError> {
    let text = query::value(query, "max_bytes").and_then(|text| String::from_utf8(text).ok());
    let bytes = text.and_then(|text| text.parse().ok());
    bytes.ok_or_else(|| GitError::invalid("max_bytes", "invalid", "must be a number of bytes"))
}

fn etag(query: &str) -> Result<String, RpcError> {
    let hash = query::value(query, "sha256").and_then(|hash| String::from_utf8(hash).ok());
    let is_hash = |hash: &String| hash.len() == SHA256_DIGITS && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    let hash =
        hash.filter(is_hash).ok_or_else(|| GitError::invalid("sha256", "invalid", "must be 64 hexadecimal digits"));
    Ok(format!("\"{}\"", hash?))
}
