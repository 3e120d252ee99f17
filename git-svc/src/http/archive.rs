use std::io;

use axum::{body::Body, response::Response};
use bytes::Bytes;
use ferrite_core::headers::matches_etag;
use ferrite_proto::{id::RepositoryId, operation::ARCHIVE, raw::ARCHIVE_COMMIT_HEADER};
use futures_util::stream;
use git_store::{
    repo::revision::Revision,
    types::{
        archive::{Format, Prefix},
        error::GitError,
    },
};
use http::{Method, header};

use super::{
    error_response::ErrorResponse, file_response::FileHead, headers::RepositoryRequest, query, range::requested_range,
};
use crate::{admission::limiter::ClientKey, rpc_error::RpcError, state::AppState, transfer::archive::ArchiveSpec};

/// `GET /git/{id}/archive?revision=…&format=…&prefix=…`: the tree of a commit, below the directory
/// `prefix`. `HEAD` makes no archive, and sets `Content-Length` only if the archive is cached.
pub(super) async fn archive(
    RepositoryRequest { state, id, caller, request }: RepositoryRequest,
) -> Result<Response, ErrorResponse> {
    let grant = state.authorize_as(&caller, ARCHIVE, id).await?;
    let spec = spec(&state, id, request.uri().query().unwrap_or_default()).await?;
    let etag = format!("\"{}\"", spec.key());
    let head = FileHead::new(&etag).with(ARCHIVE_COMMIT_HEADER, &spec.commit.to_string());
    if matches_etag(request.headers().get_all(header::IF_NONE_MATCH), &etag) {
        return Ok(head.not_modified());
    }
    let client = ClientKey::of(&caller, &grant, request.headers());
    if request.method() == Method::HEAD {
        // A stream, because an empty body would set the archive's length to 0.
        let size = state.archives.check(&spec, &client).await?;
        return Ok(head.whole(Body::from_stream(stream::empty::<io::Result<Bytes>>()), size));
    }
    let mut reader = state.archives.open(spec, client);
    let Some(range) = requested_range(request.method(), request.headers(), &etag) else {
        let size = reader.begun().await?;
        return Ok(head.whole(Body::from_stream(reader.bytes(0, None).await?), size));
    };
    // The end of a range is known once the archive is complete.
    let size = reader.whole().await?;
    let Some((start, end)) = range.within(size) else {
        return Ok(head.not_satisfiable(size));
    };
    let body = Body::from_stream(reader.bytes(start, Some(end)).await?);
    Ok(head.part(body, start..end, size))
}

async fn spec(state: &AppState, id: RepositoryId, query: &str) -> Result<ArchiveSpec, RpcError> {
    let value = |name: &'static str| {
        let found = query::value(query, name);
        found.ok_or_else(|| GitError::invalid(name, "required", "is required and must be percent-encoded"))
    };
    let format = Format::parse(&value("format")?)?;
    let prefix = Prefix::parse(&value("prefix")?)?;
    let revision = Revision::parse(&value("revision")?)?;
    let commit = state.pool.run(id, move |repo| Ok(revision.resolve(repo)?.commit)).await?;
    Ok(ArchiveSpec { repository: id, commit, format, prefix, git: state.git.version() })
}
