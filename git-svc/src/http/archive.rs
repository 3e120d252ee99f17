//! Handler of archives: a tree as one file.

use std::io;

use axum::{
    Extension,
    body::Body,
    extract::{Path, Request, State},
    response::Response,
};
use bytes::Bytes;
use ferrite_kit::auth::Caller;
use ferrite_proto::{id::RepositoryId, operation::ARCHIVE};
use futures_util::stream;
use http::{HeaderValue, Method, StatusCode, header};

use super::{
    error_response::ErrorResponse,
    headers::{insert_header, matches_etag, repository},
    query,
    range::requested_range,
};
use crate::{
    admission::limiter::ClientKey,
    repo::revision::Revision,
    state::AppState,
    transfer::archive::ArchiveSpec,
    types::{
        archive::{Format, Prefix},
        error::GitError,
        rpc_error::RpcError,
    },
};

/// Response header with the id of the commit.
const COMMIT_HEADER: &str = "ferrite-commit";

/// `GET /git/{id}/archive?revision=…&format=…&prefix=…`: the tree of the commit that a revision names, below the folder
/// `prefix`. `HEAD` makes no archive: `Content-Length` is set only if the archive is cached.
pub(super) async fn archive(
    State(state): State<AppState>,
    Path(id): Path<String>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, ErrorResponse> {
    let id = repository(&id)?;
    let grant = state.authorize_as(&caller, ARCHIVE, id).await?;
    let spec = spec(&state, RepositoryId(id), request.uri().query().unwrap_or_default()).await?;
    let etag = format!("\"{}\"", spec.key());
    let commit = spec.commit.to_string();
    if matches_etag(request.headers(), &etag) {
        return Ok(response(Body::empty(), StatusCode::NOT_MODIFIED, &etag, &commit));
    }
    let client = ClientKey::of(&caller, &grant, request.headers());
    if request.method() == Method::HEAD {
        // A stream of unknown size: the size of an empty body would become the archive's length.
        let size = state.archives.check(&spec, &client).await?;
        return Ok(whole(Body::from_stream(stream::empty::<io::Result<Bytes>>()), size, &etag, &commit));
    }
    let mut reader = state.archives.open(spec, client);
    let Some(range) = requested_range(request.method(), request.headers(), &etag) else {
        let size = reader.begun().await?;
        return Ok(whole(Body::from_stream(reader.bytes(0, None).await?), size, &etag, &commit));
    };
    // The end of a range is known once the archive is finished.
    let size = reader.whole().await?;
    let Some((start, end)) = range.within(size) else {
        let mut response = response(Body::empty(), StatusCode::RANGE_NOT_SATISFIABLE, &etag, &commit);
        insert_header(response.headers_mut(), header::CONTENT_RANGE, &format!("bytes */{size}"));
        return Ok(response);
    };
    let body = Body::from_stream(reader.bytes(start, Some(end)).await?);
    let mut response = response(body, StatusCode::PARTIAL_CONTENT, &etag, &commit);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(end - start));
    insert_header(headers, header::CONTENT_RANGE, &format!("bytes {start}-{}/{size}", end - 1));
    Ok(response)
}

/// Parses the query, and resolves the revision to a commit.
async fn spec(state: &AppState, id: RepositoryId, query: &str) -> Result<ArchiveSpec, RpcError> {
    let value = |name: &'static str| {
        let found = query::value(query, name);
        found.ok_or_else(|| GitError::invalid(name, "required", "must be given, percent-encoded"))
    };
    let format = Format::parse(&value("format")?)?;
    let prefix = Prefix::parse(&value("prefix")?)?;
    let revision = Revision::parse(&value("revision")?)?;
    let commit = state.pool.run(id, move |repo| Ok(revision.resolve(repo)?.commit)).await?;
    Ok(ArchiveSpec { repository: id, commit, format, prefix, git: state.git.version() })
}

fn whole(body: Body, size: Option<u64>, etag: &str, commit: &str) -> Response {
    let mut response = response(body, StatusCode::OK, etag, commit);
    if let Some(size) = size {
        response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(size));
    }
    response
}

fn response(body: Body, status: StatusCode, etag: &str, commit: &str) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    insert_header(headers, header::ETAG, etag);
    insert_header(headers, header::HeaderName::from_static(COMMIT_HEADER), commit);
    response
}
