//! Objects and refs of git: tags, trees, blobs, refs and annotated tags.

use axum::response::Response;
use ferrite_proto::error::reason;
use ferrite_proto::git::{
    GetBlobRequest, GetRefRequest, GetTagObjectRequest, GetTreeRequest, ListRefsRequest, ListTagsRequest,
};
use ferrite_proto::operation;

use super::response::read_error;
use crate::api::access::Emails;
use crate::api::call::{ApiCall, Authenticated, routes};
use crate::dto::{Blob, Ref, Tag, TagObject, Tree, require};
use crate::http::error::{ApiError, ApiResult};
use crate::http::json;
use crate::http::page::PageLimits;
use crate::http::path::RepoPath;
use crate::http::query::Query;

routes! {
    "/api/v1/repos/{owner}/{repo}/tags" => get tags as operation::LIST_TAGS;
    "/api/v1/repos/{owner}/{repo}/git/trees/{*sha}" => get tree as operation::GET_TREE;
    "/api/v1/repos/{owner}/{repo}/git/blobs/{sha}" => get blob as operation::GET_BLOB;
    "/api/v1/repos/{owner}/{repo}/git/tags/{sha}" => get tag_object as operation::GET_TAG_OBJECT;
    "/api/v1/repos/{owner}/{repo}/git/refs" => get refs as operation::LIST_REFS;
    "/api/v1/repos/{owner}/{repo}/git/refs/{*name}" => get named_refs as operation::GET_REF;
}

/// Returns the part of a path below `git/` that follows `kind`.
fn path_after(path: &RepoPath, kind: &[u8]) -> Vec<u8> {
    let rest = path.rest.strip_prefix(kind).and_then(|rest| rest.strip_prefix(b"/"));
    rest.unwrap_or_default().to_vec()
}

/// Returns the id of an object in a path.
fn object_id(path: &RepoPath, kind: &[u8]) -> String {
    String::from_utf8_lossy(&path_after(path, kind)).into_owned()
}

async fn tags(Authenticated(call): Authenticated, path: RepoPath, query: Query) -> ApiResult {
    let access = call.access(&path, operation::LIST_TAGS).await?;
    let page = query.page(PageLimits::WHOLE_LIST);
    let request = ListTagsRequest { repository_id: access.id, page: page.number, page_size: page.size };
    let response =
        call.clients.git_data().list_tags(call.request_with_grant(&access.grant, request)).await?.into_inner();
    let emails = Emails::of(response.tags.iter().filter_map(|tag| tag.commit.as_ref()));
    let accounts = call.accounts_by_email(emails).await?;
    let tags = response.tags.into_iter().map(|tag| Tag::new(tag, &accounts, &access.urls));
    let tags = tags.collect::<Result<Vec<_>, _>>()?;
    Ok(json::page_of_texts(tags, query.headers(page, response.total_count, &call.links)))
}

async fn tree(Authenticated(call): Authenticated, path: RepoPath, query: Query) -> ApiResult {
    let access = call.access(&path, operation::GET_TREE).await?;
    let is_recursive = query.text("recursive").is_some_and(|value| matches!(value.as_str(), "1" | "true"));
    let request = GetTreeRequest { repository_id: access.id, tree_ish: path_after(&path, b"trees"), is_recursive };
    let response = call.clients.git_data().get_tree(call.request_with_grant(&access.grant, request)).await;
    Ok(json::ok_with_parts(Tree::new(response.map_err(read_error)?.into_inner(), &access.urls)?))
}

async fn blob(Authenticated(call): Authenticated, path: RepoPath) -> ApiResult {
    let access = call.access(&path, operation::GET_BLOB).await?;
    let request = GetBlobRequest { repository_id: access.id, blob_id: object_id(&path, b"blobs") };
    let response = call.clients.git_data().get_blob(call.request_with_grant(&access.grant, request)).await;
    Ok(json::ok(Blob::new(response.map_err(read_error)?.into_inner(), &access.urls)))
}

async fn tag_object(Authenticated(call): Authenticated, path: RepoPath) -> ApiResult {
    let access = call.access(&path, operation::GET_TAG_OBJECT).await?;
    let request = GetTagObjectRequest { repository_id: access.id, tag_id: object_id(&path, b"tags") };
    let response = call.clients.git_data().get_tag_object(call.request_with_grant(&access.grant, request)).await;
    Ok(json::ok(TagObject::new(response.map_err(read_error)?.into_inner(), &access.urls)?))
}

async fn refs(Authenticated(call): Authenticated, path: RepoPath, query: Query) -> ApiResult {
    let (list, _) = list(&call, &path, &query, Vec::new()).await?;
    Ok(list)
}

/// Handles a full name of a ref: returns the ref of that name, or else the refs whose names begin with it.
async fn named_refs(Authenticated(call): Authenticated, path: RepoPath, query: Query) -> ApiResult {
    let access = call.access(&path, operation::GET_REF).await?;
    // The rest of the path begins with `refs/`, as full names do.
    let name = path.rest.clone();
    let request = GetRefRequest { repository_id: access.id, name: name.clone() };
    match call.clients.git_data().get_ref(call.request_with_grant(&access.grant, request)).await {
        Ok(response) => {
            let reference = require(response.into_inner().reference, "reference")?;
            return Ok(json::ok(Ref::new(reference, &access.urls)?));
        }
        Err(status) if reason(&status).as_deref() == Some("REF_NOT_FOUND") => {}
        Err(status) => return Err(status.into()),
    }
    let (list, total) = list(&call, &path, &query, name).await?;
    if total == 0 { Err(ApiError::not_found("reference does not exist")) } else { Ok(list) }
}

/// Returns a page of the refs whose full names begin with `prefix`, and their total number.
async fn list(call: &ApiCall, path: &RepoPath, query: &Query, prefix: Vec<u8>) -> Result<(Response, i64), ApiError> {
    let access = call.access(path, operation::LIST_REFS).await?;
    let page = query.page(PageLimits::WHOLE_LIST);
    let request = ListRefsRequest { repository_id: access.id, prefix, page: page.number, page_size: page.size };
    let response =
        call.clients.git_data().list_refs(call.request_with_grant(&access.grant, request)).await?.into_inner();
    let refs = response.references.into_iter().map(|reference| Ref::new(reference, &access.urls));
    let refs = refs.collect::<Result<Vec<_>, _>>()?;
    Ok((json::page(refs, query.headers(page, response.total_count, &call.links)), response.total_count))
}
