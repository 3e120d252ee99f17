//! Labels of a repository. Not here: the labels of an issue.

use ferrite_proto::issue::{
    CreateLabelRequest, DeleteLabelRequest, GetLabelRequest, ListLabelsRequest, UpdateLabelRequest,
};
use ferrite_proto::operation;

use super::call::{Authenticated, routes};
use crate::dto::{Label, require};
use crate::http::body::JsonBody;
use crate::http::body_limits::MAX_JSON_BYTES;
use crate::http::error::ApiResult;
use crate::http::json;
use crate::http::page::PageLimits;
use crate::http::path::{Params, RepoPath};
use crate::http::query::Query;

routes! {
    "/api/v1/repos/{owner}/{repo}/labels" => get list as operation::LIST_LABELS, post create as operation::CREATE_LABEL;
    "/api/v1/repos/{owner}/{repo}/labels/{id}" =>
        get get as operation::GET_LABEL,
        patch update as operation::UPDATE_LABEL,
        delete remove as operation::DELETE_LABEL;
}

async fn list(Authenticated(call): Authenticated, path: RepoPath, query: Query) -> ApiResult {
    let access = call.access(&path, operation::LIST_LABELS).await?;
    let page = query.page(PageLimits::WHOLE_LIST);
    let request = ListLabelsRequest { repository_id: access.id, page: page.number, page_size: page.size };
    let request = call.request_with_grant(&access.grant, request);
    let response = call.clients.labels().list_labels(request).await?.into_inner();
    let labels: Vec<_> = response.labels.into_iter().map(|label| Label::new(label, &access.urls)).collect();
    Ok(json::page(labels, query.headers(page, response.total_count, &call.links)))
}

/// Responds with one label, by its id or its name.
async fn get(Authenticated(call): Authenticated, path: RepoPath, params: Params) -> ApiResult {
    let access = call.access(&path, operation::GET_LABEL).await?;
    let request = GetLabelRequest { repository_id: access.id, label: params.name("id") };
    let request = call.request_with_grant(&access.grant, request);
    let response = call.clients.labels().get_label(request).await?.into_inner();
    Ok(json::ok(Label::new(require(response.label, "label")?, &access.urls)))
}

async fn create(Authenticated(call): Authenticated, path: RepoPath, body: JsonBody) -> ApiResult {
    let access = call.access(&path, operation::CREATE_LABEL).await?;
    let decode = body.decode(&call.body_limits, MAX_JSON_BYTES, |fields| CreateLabelRequest {
        repository_id: access.id,
        name: fields.required_non_empty("name"),
        color: fields.required_non_empty("color"),
    });
    let (request, _permit) = decode.await?;
    let access = call.confirm(access, operation::CREATE_LABEL).await?;
    let request = call.request_with_grant(&access.grant, request);
    let response = call.clients.labels().create_label(request).await?.into_inner();
    Ok(json::created(Label::new(require(response.label, "label")?, &access.urls)))
}

async fn update(Authenticated(call): Authenticated, path: RepoPath, params: Params, body: JsonBody) -> ApiResult {
    let access = call.access(&path, operation::UPDATE_LABEL).await?;
    let decode = body.decode(&call.body_limits, MAX_JSON_BYTES, |fields| UpdateLabelRequest {
        repository_id: access.id,
        label_id: params.id("id"),
        name: fields.optional_non_empty("name"),
        color: fields.optional_text("color"),
    });
    let (request, _permit) = decode.await?;
    let access = call.confirm(access, operation::UPDATE_LABEL).await?;
    let request = call.request_with_grant(&access.grant, request);
    let response = call.clients.labels().update_label(request).await?.into_inner();
    Ok(json::ok(Label::new(require(response.label, "label")?, &access.urls)))
}

async fn remove(Authenticated(call): Authenticated, path: RepoPath, params: Params) -> ApiResult {
    let access = call.access(&path, operation::DELETE_LABEL).await?;
    let request = DeleteLabelRequest { repository_id: access.id, label_id: params.id("id") };
    call.clients.labels().delete_label(call.request_with_grant(&access.grant, request)).await?;
    Ok(json::no_content())
}
