//! Handler of raw files: the bytes of one file, or a range of them.

use std::{future::ready, io};

use axum::{body::Body, response::Response};
use bytes::{Bytes, BytesMut};
use ferrite_kit::headers::matches_etag;
use ferrite_proto::{
    id::RepositoryId,
    operation::RAW,
    raw::{FILE_IS_TEXT_HEADER, FILE_NAME_HEADER, TEXT_CHECK_BYTES, is_text},
};
use futures_util::{Stream, StreamExt as _, stream, stream::BoxStream};
use git2::Oid;
use http::header;

use super::{
    error_response::ErrorResponse, file_response::FileHead, headers::RepositoryRequest, query, range::requested_range,
};
use crate::{admission::limiter::ClientKey, repo::read, state::AppState, types::error::GitError};

/// `GET /git/{id}/raw?path=…`: the file that `path` names, a branch, tag or commit followed by a path in it.
pub(super) async fn raw(
    RepositoryRequest { state, id, caller, request }: RepositoryRequest,
) -> Result<Response, ErrorResponse> {
    let grant = state.authorize_as(&caller, RAW, id).await?;
    let (parts, _) = request.into_parts();
    let path = query::value(parts.uri.query().unwrap_or_default(), "path");
    let path =
        path.ok_or_else(|| GitError::invalid("path", "required", "must be a ref and a path, percent-encoded"))?;
    let file = state.pool.run(id, move |repo| read::raw(repo, &path)).await?;
    let etag = format!("\"{}\"", file.blob);
    let head = FileHead::new(&etag).with(FILE_NAME_HEADER, &query::encode(&file.name));
    if matches_etag(parts.headers.get_all(header::IF_NONE_MATCH), &etag) {
        return Ok(head.not_modified());
    }
    let client = ClientKey::of(&caller, &grant, &parts.headers);
    let Some(range) = requested_range(&parts.method, &parts.headers, &etag) else {
        let body = match file.content {
            Some(content) => Body::from(content),
            None => Body::from_stream(large(&state, id, file.blob, &client).await?),
        };
        return Ok(head.whole(body, Some(file.size)));
    };
    let Some((start, end)) = range.within(file.size) else {
        return Ok(head.not_satisfiable(file.size));
    };
    let (first, chunks) = match file.content {
        Some(content) => (Bytes::from(content), stream::empty().boxed()),
        None => begun(large(&state, id, file.blob, &client).await?).await?,
    };
    let head = head.with(FILE_IS_TEXT_HEADER, if is_text(&first) { "true" } else { "false" });
    let body = Body::from_stream(part(stream::iter([Ok(first)]).chain(chunks), start, end));
    Ok(head.part(body, start..end, file.size))
}

/// Returns the content of a large file as a stream from `git cat-file`.
async fn large(
    state: &AppState,
    id: RepositoryId,
    blob: Oid,
    client: &ClientKey,
) -> Result<impl Stream<Item = io::Result<Bytes>> + Send + use<>, GitError> {
    let permit = state.limiters.raw.acquire(id, client).await?;
    let child = state.git.cat_file(&state.store.path(id), blob)?;
    Ok(state.transfers.output(child, permit))
}

/// Reads the first [`TEXT_CHECK_BYTES`] bytes or more, which show whether the file is text; returns them and the chunks that
/// follow.
async fn begun(
    chunks: impl Stream<Item = io::Result<Bytes>> + Send + 'static,
) -> Result<(Bytes, BoxStream<'static, io::Result<Bytes>>), GitError> {
    let (mut chunks, mut head) = (chunks.boxed(), BytesMut::new());
    while head.len() < TEXT_CHECK_BYTES
        && let Some(chunk) = chunks.next().await
    {
        head.extend_from_slice(&chunk.map_err(GitError::io("reading a file"))?);
    }
    Ok((head.freeze(), chunks))
}

/// Returns the bytes from `start` up to `end`. The stream ends there, and with it the process that reads the file.
fn part(chunks: impl Stream<Item = io::Result<Bytes>>, start: u64, end: u64) -> impl Stream<Item = io::Result<Bytes>> {
    let cut = move |at: &mut u64, chunk: io::Result<Bytes>| {
        let chunk = match chunk {
            Ok(_) if *at >= end => return ready(None),
            Ok(chunk) => chunk,
            Err(error) => return ready(Some(Err(error))),
        };
        let (begin, size) = (*at, chunk.len() as u64);
        *at += size;
        // Fits: it is at most the size of the chunk, which is a `usize`.
        let within = |place: u64| usize::try_from(place.saturating_sub(begin).min(size)).unwrap_or(chunk.len());
        ready(Some(Ok(chunk.slice(within(start)..within(end)))))
    };
    let cut = chunks.scan(0, cut);
    cut.filter(|chunk| ready(!chunk.as_ref().is_ok_and(Bytes::is_empty)))
}
