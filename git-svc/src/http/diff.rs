//! Handler of diffs and patches as text.

use std::io;

use axum::{body::Body, response::Response};
use bytes::Bytes;
use ferrite_core::headers::matches_etag;
use ferrite_proto::{git, id::RepositoryId, operation::DIFF, raw::DIFF_COMMIT_HEADER};
use futures_util::stream;
use git_store::{
    git::command::diff::{DiffBase, Whitespace},
    repo::{read::diff::DiffPair, revision::Revision},
    types::error::GitError,
};
use http::{HeaderName, HeaderValue, Method, StatusCode, header};

use super::{
    error_response::ErrorResponse,
    headers::{RepositoryRequest, insert_header},
    query,
};
use crate::{
    admission::limiter::ClientKey,
    rpc_error::RpcError,
    state::AppState,
    transfer::archive::{DiffFormat, DiffText},
};

/// `GET /git/{id}/diff?head=…&format=…[&base=…][&whitespace=…]`: what a commit changed compared with
/// its first parent, or what `head` changed since its merge base with `base`. `HEAD` makes no diff,
/// and sets `Content-Length` only if it is cached.
///
/// The entity tag is weak: abbreviated ids in the text become longer as the repository grows.
pub(super) async fn diff(
    RepositoryRequest { state, id, caller, request }: RepositoryRequest,
) -> Result<Response, ErrorResponse> {
    let grant = state.authorize_as(&caller, DIFF, id).await?;
    let text = text(&state, id, request.uri().query().unwrap_or_default()).await?;
    let etag = format!("\"{}\"", text.key());
    let respond = |status: StatusCode, body: Body, size: Option<u64>| {
        let mut response = Response::new(body);
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
        insert_header(headers, header::ETAG, &format!("W/{etag}"));
        insert_header(headers, HeaderName::from_static(DIFF_COMMIT_HEADER), &text.head.to_string());
        headers.extend(size.map(|size| (header::CONTENT_LENGTH, HeaderValue::from(size))));
        response
    };
    if matches_etag(request.headers().get_all(header::IF_NONE_MATCH), &etag) {
        return Ok(respond(StatusCode::NOT_MODIFIED, Body::empty(), None));
    }
    if request.method() == Method::HEAD {
        // A stream, because an empty body would set the length to 0.
        let body = Body::from_stream(stream::empty::<io::Result<Bytes>>());
        return Ok(respond(StatusCode::OK, body, state.archives.diff_size(&text)));
    }
    let mut reader = state.archives.open_diff(text, ClientKey::of(&caller, &grant, request.headers()));
    let size = reader.whole().await?;
    Ok(respond(StatusCode::OK, Body::from_stream(reader.bytes(0, None).await?), Some(size)))
}

async fn text(state: &AppState, id: RepositoryId, query: &str) -> Result<DiffText, RpcError> {
    let value = |name: &'static str| {
        let found = query::value(query, name);
        found.ok_or_else(|| GitError::invalid(name, "required", "is required and must be percent-encoded"))
    };
    let (head, format) = (Revision::parse(&value("head")?)?, DiffFormat::parse(&value("format")?)?);
    let base = query::value(query, "base").map(|base| Revision::parse(&base)).transpose()?;
    let whitespace = match query::value(query, "whitespace") {
        Some(name) if format != DiffFormat::Patch => whitespace(&name)?,
        _ => Whitespace::ShowAll,
    };
    let job = move |repo: &git2::Repository| {
        let head = head.resolve(repo)?.commit;
        let base = match &base {
            Some(base) => DiffBase::MergeBase(base.resolve(repo)?.commit),
            None => DiffPair::of_commit(repo, head)?.old.map_or(DiffBase::Empty, DiffBase::Commit),
        };
        Ok((base, head))
    };
    let (base, head) = state.pool.run(id, job).await?;
    Ok(DiffText { repository: id, format, base, head, whitespace, git: state.git.version() })
}

/// Parses the name of a value of the contract.
fn whitespace(name: &[u8]) -> Result<Whitespace, GitError> {
    let mode = std::str::from_utf8(name).ok().and_then(git::Whitespace::from_str_name);
    let unknown = || GitError::invalid("whitespace", "unknown", "must be a name of `Whitespace`");
    mode.map(Whitespace::from).ok_or_else(unknown)
}
