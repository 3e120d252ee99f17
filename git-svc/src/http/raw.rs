//! The bytes of one file, or a range of them.

use std::{future::ready, io};

use axum::{
    Extension,
    body::Body,
    extract::{Path, Request, State},
    response::Response,
};
use bytes::{Bytes, BytesMut};
use ferrite_kit::auth::Caller;
use ferrite_proto::{
    id::RepositoryId,
    operation::RAW,
    raw::{FILE_IS_TEXT_HEADER as FILE_TEXT, FILE_NAME_HEADER as FILE_NAME, TEXT_CHECK_BYTES as SNIFFED, is_text},
};
use futures_util::{Stream, StreamExt as _, stream, stream::BoxStream};
use git2::Oid;
use http::{HeaderMap, HeaderValue, StatusCode, header};

use super::{answer::Refusal, archive::insert, gates::Client, git::repository, query, range::asked, transfer::output};
use crate::{app::App, error::GitError, read};

/// `GET /git/{id}/raw?path=…`: the file that a branch, tag or commit and a path name.
pub(super) async fn raw(
    State(app): State<App>,
    Path(id): Path<String>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Refusal> {
    let id = repository(&id)?;
    let grant = app.authorize_as(&caller, RAW, id).await?;
    let id = RepositoryId(id);
    let (parts, _) = request.into_parts();
    let path = query::value(parts.uri.query().unwrap_or_default(), "path");
    let path =
        path.ok_or_else(|| GitError::invalid("path", "required", "must be a ref and a path, percent-encoded"))?;
    let file = app.pool.run(id, move |repo| read::raw(repo, &path)).await?;
    let etag = format!("\"{}\"", file.blob);
    if is_known(&parts.headers, &etag) {
        return Ok(answer(Body::empty(), StatusCode::NOT_MODIFIED, &etag, &file.name));
    }
    let client = Client::of(&caller, &grant, &parts.headers);
    let Some(asked) = asked(&parts.method, &parts.headers, &etag) else {
        let body = match file.content {
            Some(content) => Body::from(content),
            None => Body::from_stream(large(&app, id, file.blob, &client).await?),
        };
        return Ok(sized(answer(body, StatusCode::OK, &etag, &file.name), file.size));
    };
    let Some((start, end)) = asked.within(file.size) else {
        let mut response = answer(Body::empty(), StatusCode::RANGE_NOT_SATISFIABLE, &etag, &file.name);
        insert(response.headers_mut(), header::CONTENT_RANGE, &format!("bytes */{}", file.size));
        return Ok(response);
    };
    let (head, pieces) = match file.content {
        Some(content) => (Bytes::from(content), stream::empty().boxed()),
        None => begun(large(&app, id, file.blob, &client).await?).await?,
    };
    let head_is_text = is_text(&head);
    let body = Body::from_stream(part(stream::iter([Ok(head)]).chain(pieces), start, end));
    let mut response = sized(answer(body, StatusCode::PARTIAL_CONTENT, &etag, &file.name), end - start);
    let headers = response.headers_mut();
    insert(headers, header::CONTENT_RANGE, &format!("bytes {start}-{}/{}", end - 1, file.size));
    headers.insert(FILE_TEXT, HeaderValue::from_static(if head_is_text { "true" } else { "false" }));
    Ok(response)
}

/// A file as git writes it.
async fn large(
    app: &App,
    id: RepositoryId,
    blob: Oid,
    client: &Client,
) -> Result<impl Stream<Item = io::Result<Bytes>> + Send + use<>, GitError> {
    let turn = app.gates.raw.enter(id, client).await?;
    let child = app.git.cat_file(&app.store.path(id), blob)?;
    Ok(output(app, child, turn))
}

/// The first bytes, which say what the file is, and those that follow.
async fn begun(
    pieces: impl Stream<Item = io::Result<Bytes>> + Send + 'static,
) -> Result<(Bytes, BoxStream<'static, io::Result<Bytes>>), GitError> {
    let (mut pieces, mut head) = (pieces.boxed(), BytesMut::new());
    while head.len() < SNIFFED
        && let Some(piece) = pieces.next().await
    {
        head.extend_from_slice(&piece.map_err(GitError::io("reading a file"))?);
    }
    Ok((head.freeze(), pieces))
}

/// The bytes from `start` up to `end`. What reads them is ended when the last is there.
fn part(pieces: impl Stream<Item = io::Result<Bytes>>, start: u64, end: u64) -> impl Stream<Item = io::Result<Bytes>> {
    let cut = move |at: &mut u64, piece: io::Result<Bytes>| {
        let piece = match piece {
            Ok(_) if *at >= end => return ready(None),
            Ok(piece) => piece,
            Err(error) => return ready(Some(Err(error))),
        };
        let (begin, size) = (*at, piece.len() as u64);
        *at += size;
        // Both are at most the piece's size, which is one.
        let within = |place: u64| usize::try_from(place.saturating_sub(begin).min(size)).unwrap_or(piece.len());
        ready(Some(Ok(piece.slice(within(start)..within(end)))))
    };
    let cut = pieces.scan(0, cut);
    cut.filter(|piece| ready(!piece.as_ref().is_ok_and(Bytes::is_empty)))
}

fn sized(mut response: Response, size: u64) -> Response {
    response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(size));
    response
}

fn answer(body: Body, status: StatusCode, etag: &str, name: &[u8]) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    response.headers_mut().insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    // Both are plain ASCII: there is nothing to refuse.
    if let (Ok(etag), Ok(name)) = (HeaderValue::from_str(etag), HeaderValue::from_str(&query::encode(name))) {
        response.headers_mut().insert(header::ETAG, etag);
        response.headers_mut().insert(FILE_NAME, name);
    }
    response
}

/// Whether the client has this very file.
pub(super) fn is_known(headers: &HeaderMap, etag: &str) -> bool {
    let known = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    known
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .any(|tag| tag == "*" || tag.trim_start_matches("W/") == etag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_the_condition_is_understood() {
        for (value, known) in
            [("\"a\"", true), ("W/\"a\"", true), ("\"b\", \"a\"", true), ("*", true), ("\"b\"", false), ("a", false)]
        {
            let mut headers = HeaderMap::new();
            headers.insert(header::IF_NONE_MATCH, HeaderValue::from_static(value));
            assert_eq!(is_known(&headers, "\"a\""), known, "{value}");
        }
    }
}
