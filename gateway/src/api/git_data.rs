//! What is behind the files: tags, trees, blobs, refs, annotated tags.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use ferrite_proto::error::reason;
use ferrite_proto::git::{
    GetBlobRequest, GetRefRequest, GetTagObjectRequest, GetTreeRequest, ListRefsRequest, ListTagsRequest,
};
use ferrite_proto::operation;
use tonic::Status;

use super::access::Emails;
use crate::auth::{Call, Signed};
use crate::dto::{Blob, Ref, Tag, TagObject, Tree, present};
use crate::http::error::ApiError;
use crate::http::json;
use crate::http::page::{Query, WHOLE};
use crate::http::path::RepoPath;
use crate::http::routes::routes;
use crate::state::Gateway;

routes! { Gateway:
    "/api/v1/repos/{owner}/{repo}/tags" => get tags as operation::LIST_TAGS;
    "/api/v1/repos/{owner}/{repo}/git/trees/{*sha}" => get tree as operation::GET_TREE;
    "/api/v1/repos/{owner}/{repo}/git/blobs/{sha}" => get blob as operation::GET_BLOB;
    "/api/v1/repos/{owner}/{repo}/git/tags/{sha}" => get tag_object as operation::GET_TAG_OBJECT;
    "/api/v1/repos/{owner}/{repo}/git/refs" => get refs as operation::LIST_REFS;
    "/api/v1/repos/{owner}/{repo}/git/refs/{*name}" => get named_refs as operation::GET_REF;
}

/// What follows `kind` in a path below `git/`.
fn after(path: &RepoPath, kind: &[u8]) -> Vec<u8> {
    let rest = path.rest.strip_prefix(kind).and_then(|rest| rest.strip_prefix(b"/"));
    rest.unwrap_or_default().to_vec()
}

/// An id as text. What is none names nothing.
fn id(path: &RepoPath, kind: &[u8]) -> String {
    String::from_utf8_lossy(&after(path, kind)).into_owned()
}

/// What is too large to be shown was not asked for with too large a request.
fn unreadable(status: Status) -> ApiError {
    let mut error = ApiError::from(status);
    if error.status == StatusCode::PAYLOAD_TOO_LARGE {
        error.status = StatusCode::UNPROCESSABLE_ENTITY;
    }
    error
}

async fn tags(
    State(gateway): State<Gateway>,
    Signed(call): Signed,
    path: RepoPath,
    query: Query,
) -> Result<Response, ApiError> {
    let access = gateway.access(&call, &path, operation::LIST_TAGS).await?;
    let page = query.page(WHOLE);
    let request = ListTagsRequest { repository_id: access.id, page: page.number, page_size: page.size };
    let answer = gateway.clients.git_data().list_tags(call.granted(&access.grant, request)).await?.into_inner();
    let emails = Emails::of(answer.tags.iter().filter_map(|tag| tag.commit.as_ref()));
    let accounts = gateway.accounts_by_email(&call, emails).await?;
    let tags = answer.tags.into_iter().map(|tag| Tag::new(tag, &accounts, &access.urls));
    let tags = tags.collect::<Result<Vec<_>, _>>()?;
    Ok(json::page(tags, query.headers(page, answer.total_count, &gateway.links)))
}

async fn tree(
    State(gateway): State<Gateway>,
    Signed(call): Signed,
    path: RepoPath,
    query: Query,
) -> Result<Response, ApiError> {
    let access = gateway.access(&call, &path, operation::GET_TREE).await?;
    let is_recursive = query.text("recursive").is_some_and(|value| matches!(value.as_str(), "1" | "true"));
    let request = GetTreeRequest { repository_id: access.id, tree_ish: after(&path, b"trees"), is_recursive };
    let answer = gateway.clients.git_data().get_tree(call.granted(&access.grant, request)).await;
    Ok(json::ok(Tree::new(answer.map_err(unreadable)?.into_inner(), &access.urls)?))
}

async fn blob(State(gateway): State<Gateway>, Signed(call): Signed, path: RepoPath) -> Result<Response, ApiError> {
    let access = gateway.access(&call, &path, operation::GET_BLOB).await?;
    let request = GetBlobRequest { repository_id: access.id, blob_id: id(&path, b"blobs") };
    let answer = gateway.clients.git_data().get_blob(call.granted(&access.grant, request)).await;
    Ok(json::ok(Blob::new(answer.map_err(unreadable)?.into_inner(), &access.urls)))
}

async fn tag_object(
    State(gateway): State<Gateway>,
    Signed(call): Signed,
    path: RepoPath,
) -> Result<Response, ApiError> {
    let access = gateway.access(&call, &path, operation::GET_TAG_OBJECT).await?;
    let request = GetTagObjectRequest { repository_id: access.id, tag_id: id(&path, b"tags") };
    let answer = gateway.clients.git_data().get_tag_object(call.granted(&access.grant, request)).await;
    Ok(json::ok(TagObject::new(answer.map_err(unreadable)?.into_inner(), &access.urls)?))
}

async fn refs(
    State(gateway): State<Gateway>,
    Signed(call): Signed,
    path: RepoPath,
    query: Query,
) -> Result<Response, ApiError> {
    let (list, _) = list(&gateway, &call, &path, &query, Vec::new()).await?;
    Ok(list)
}

/// The ref of that name below `refs/`, or else those whose names begin with it.
async fn named_refs(
    State(gateway): State<Gateway>,
    Signed(call): Signed,
    path: RepoPath,
    query: Query,
) -> Result<Response, ApiError> {
    let access = gateway.access(&call, &path, operation::GET_REF).await?;
    // `refs` stands at the front of the rest and of every full name alike.
    let name = path.rest.clone();
    let request = GetRefRequest { repository_id: access.id, name: name.clone() };
    match gateway.clients.git_data().get_ref(call.granted(&access.grant, request)).await {
        Ok(answer) => {
            let reference = present(answer.into_inner().reference, "reference")?;
            return Ok(json::ok(Ref::new(reference, &access.urls)?));
        }
        Err(status) if reason(&status).as_deref() == Some("REF_NOT_FOUND") => {}
        Err(status) => return Err(status.into()),
    }
    let (list, total) = list(&gateway, &call, &path, &query, name).await?;
    if total == 0 { Err(ApiError::not_found("reference does not exist")) } else { Ok(list) }
}

/// A page of the refs whose full names begin with `prefix`, and how many there are in all.
async fn list(
    gateway: &Gateway,
    call: &Call,
    path: &RepoPath,
    query: &Query,
    prefix: Vec<u8>,
) -> Result<(Response, i64), ApiError> {
    let access = gateway.access(call, path, operation::LIST_REFS).await?;
    let page = query.page(WHOLE);
    let request = ListRefsRequest { repository_id: access.id, prefix, page: page.number, page_size: page.size };
    let answer = gateway.clients.git_data().list_refs(call.granted(&access.grant, request)).await?.into_inner();
    let refs = answer.references.into_iter().map(|reference| Ref::new(reference, &access.urls));
    let refs = refs.collect::<Result<Vec<_>, _>>()?;
    Ok((json::page(refs, query.headers(page, answer.total_count, &gateway.links)), answer.total_count))
}
