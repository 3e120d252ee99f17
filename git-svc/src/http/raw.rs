//! Handler of raw files, or ranges of them.

use std::{future::ready, io};

use axum::{body::Body, response::Response};
use bytes::{Bytes, BytesMut};
use ferrite_core::headers::matches_etag;
use ferrite_proto::{
    id::RepositoryId,
    operation::RAW,
    raw::{FILE_IS_TEXT_HEADER, FILE_NAME_HEADER, TEXT_CHECK_BYTES, is_text},
};
use futures_util::{Stream, StreamExt as _, stream, stream::BoxStream};
use git_store::{
    repo::{read, revision::Revision},
    types::error::GitError,
};
use git2::{Oid, Repository};
use http::{Method, header};

use super::{
    error_response::ErrorResponse, file_response::FileHead, headers::RepositoryRequest, query, range::requested_range,
};
use crate::{
    admission::limiter::{ClientKey, Permit},
    state::AppState,
    transfer::archive::{DeltaFile, Reader},
};

/// `GET /git/{id}/raw?path=…`: a file. `path` is a branch, tag or commit followed by the path in
/// it; with a `revision`, which may be empty for the default branch, it is the path alone.
pub(super) async fn raw(
    RepositoryRequest { state, id, caller, request }: RepositoryRequest,
) -> Result<Response, ErrorResponse> {
    let grant = state.authorize_as(&caller, RAW, id).await?;
    let (parts, _) = request.into_parts();
    let query = parts.uri.query().unwrap_or_default();
    let (revision, path) = (query::value(query, "revision"), query::value(query, "path"));
    let path =
        path.ok_or_else(|| GitError::invalid("path", "required", "must be a ref and a path, percent-encoded"))?;
    let revision = revision.map(|revision| Revision::parse(&revision)).transpose()?;
    let find = move |repo: &Repository| match &revision {
        Some(revision) => read::raw_at(repo, revision, &path),
        None => read::raw(repo, &path),
    };
    let file = state.pool.run(id, find).await?;
    let etag = format!("\"{}\"", file.blob);
    let head = FileHead::new(&etag).with(FILE_NAME_HEADER, &query::encode(&file.name));
    if matches_etag(parts.headers.get_all(header::IF_NONE_MATCH), &etag) {
        return Ok(head.not_modified());
    }
    if parts.method == Method::HEAD {
        // A stream, because an empty body would set the file's length to 0.
        return Ok(head.whole(Body::from_stream(stream::empty::<io::Result<Bytes>>()), Some(file.size)));
    }
    let client = ClientKey::of(&caller, &grant, &parts.headers);
    let large = LargeFile { state: &state, id, blob: file.blob, size: file.size, delta_bytes: file.delta_bytes };
    let Some(range) = requested_range(&parts.method, &parts.headers, &etag) else {
        let body = match file.content {
            Some(content) => Body::from(content),
            None => Body::from_stream(large.whole(&client).await?),
        };
        return Ok(head.whole(body, Some(file.size)));
    };
    let Some((start, end)) = range.within(file.size) else {
        return Ok(head.not_satisfiable(file.size));
    };
    let (is_text, chunks) = match file.content {
        Some(content) => {
            let content = Bytes::from(content);
            (is_text(&content), part(stream::iter([Ok(content)]), start, end).boxed())
        }
        None => large.part(&client, start, end).await?,
    };
    let head = head.with(FILE_IS_TEXT_HEADER, if is_text { "true" } else { "false" });
    Ok(head.part(Body::from_stream(chunks), start..end, file.size))
}

type Chunks = BoxStream<'static, io::Result<Bytes>>;

/// A file that git writes: to the client, or to the cache if it is stored as a delta.
struct LargeFile<'a> {
    state: &'a AppState,
    id: RepositoryId,
    blob: Oid,
    size: u64,
    delta_bytes: u64,
}

impl LargeFile<'_> {
    async fn whole(&self, client: &ClientKey) -> Result<Chunks, GitError> {
        let permit = self.state.limiters.raw.acquire(self.id, client).await?;
        if self.delta_bytes == 0 {
            return self.stream(permit);
        }
        let reader = self.built(client).await?;
        Ok(self.state.transfers.paced(reader.bytes(0, None).await?, permit).boxed())
    }

    /// Returns whether the file is text, and the content from `start` up to `end`.
    async fn part(&self, client: &ClientKey, start: u64, end: u64) -> Result<(bool, Chunks), GitError> {
        let permit = self.state.limiters.raw.acquire(self.id, client).await?;
        if self.delta_bytes == 0 {
            let (first, chunks) = begun(self.stream(permit)?).await?;
            return Ok((is_text(&first), part(stream::iter([Ok(first)]).chain(chunks), start, end).boxed()));
        }
        let mut reader = self.built(client).await?;
        let first = reader.first(TEXT_CHECK_BYTES).await?;
        let chunks = reader.bytes(start, Some(end)).await?;
        Ok((is_text(&first), self.state.transfers.paced(chunks, permit).boxed()))
    }

    /// Streams the content from `git cat-file`.
    fn stream(&self, permit: Permit) -> Result<Chunks, GitError> {
        let child = self.state.git.cat_file(&self.state.store.path(self.id), self.blob)?;
        Ok(self.state.transfers.output(child, permit).boxed())
    }

    async fn built(&self, client: &ClientKey) -> Result<Reader, GitError> {
        let file = DeltaFile { repository: self.id, blob: self.blob, size: self.size, memory: self.delta_bytes };
        self.state.archives.open_file(file, client).await
    }
}

/// Reads at least [`TEXT_CHECK_BYTES`] bytes, which show whether the file is text. Returns them and
/// the chunks that follow.
async fn begun(mut chunks: Chunks) -> Result<(Bytes, Chunks), GitError> {
    let mut head = BytesMut::new();
    while head.len() < TEXT_CHECK_BYTES
        && let Some(chunk) = chunks.next().await
    {
        head.extend_from_slice(&chunk.map_err(GitError::io("reading a file"))?);
    }
    Ok((head.freeze(), chunks))
}

/// Returns the bytes from `start` up to `end`. Dropping the stream there also ends the process that
/// reads the file.
fn part(chunks: impl Stream<Item = io::Result<Bytes>>, start: u64, end: u64) -> impl Stream<Item = io::Result<Bytes>> {
    let cut = move |at: &mut u64, chunk: io::Result<Bytes>| {
        let chunk = match chunk {
            Ok(_) if *at >= end => return ready(None),
            Ok(chunk) => chunk,
            Err(error) => return ready(Some(Err(error))),
        };
        let (begin, size) = (*at, chunk.len() as u64);
        *at += size;
        // Fits, because it is at most the chunk size, a `usize`.
        let within = |place: u64| usize::try_from(place.saturating_sub(begin).min(size)).unwrap_or(chunk.len());
        ready(Some(Ok(chunk.slice(within(start)..within(end)))))
    };
    let cut = chunks.scan(0, cut);
    cut.filter(|chunk| ready(!chunk.as_ref().is_ok_and(Bytes::is_empty)))
}
