//! Labels of a repository. Not here: the labels of an issue.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use ferrite_proto::issue::{
    CreateLabelRequest, DeleteLabelRequest, GetLabelRequest, ListLabelsRequest, UpdateLabelRequest,
};
use ferrite_proto::operation;

use super::state::ApiState;
use crate::auth::Authenticated;
use crate::dto::{Label, require};
use crate::http::body::JsonBody;
use crate::http::body_limits::MAX_JSON_BYTES;
use crate::http::error::ApiError;
use crate::http::json;
use crate::http::page::PageLimits;
use crate::http::path::{Params, RepoPath};
use crate::http::query::Query;
use crate::http::routes::routes;

routes! { ApiState:
    "/api/v1/repos/{owner}/{repo}/labels" => get list as operation::LIST_LABELS, post create as operation::CREATE_LABEL;
    "/api/v1/repos/{owner}/{repo}/labels/{id}" =>
        get get as operation::GET_LABEL,
        patch update as operation::UPDATE_LABEL,
        delete remove as operation::DELETE_LABEL;
}

async fn list(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: RepoPath,
    query: Query,
) -> Result<Response, ApiError> {
    let access = api.access(&context, &path, operation::LIST_LABELS).await?;
    let page = query.page(PageLimits::WHOLE_LIST);
    let request = ListLabelsRequest { repository_id: access.id, page: page.number, page_size: page.size };
    let request = context.request_with_grant(&access.grant, request);
    let answer = api.clients.labels().list_labels(request).await?.into_inner();
    let labels: Vec<_> = answer.labels.into_iter().map(|label| Label::new(label, &access.urls)).collect();
    Ok(json::page(labels, query.headers(page, answer.total_count, &api.links)))
}

/// Answers with one label, by its id or its name.
async fn get(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: RepoPath,
    params: Params,
) -> Result<Response, ApiError> {
    let access = api.access(&context, &path, operation::GET_LABEL).await?;
    let request = GetLabelRequest { repository_id: access.id, label: params.name("id") };
    let request = context.request_with_grant(&access.grant, request);
    let answer = api.clients.labels().get_label(request).await?.into_inner();
    Ok(json::ok(Label::new(require(answer.label, "label")?, &access.urls)))
}

async fn create(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: RepoPath,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let access = api.access(&context, &path, operation::CREATE_LABEL).await?;
    let mut fields = body.fields(&api.body_limits, MAX_JSON_BYTES).await?;
    let request = CreateLabelRequest {
        repository_id: access.id,
        name: fields.required_non_empty("name"),
        color: fields.required_non_empty("color"),
    };
    let _permit = fields.finish()?;
    let request = context.request_with_grant(&access.grant, request);
    let answer = api.clients.labels().create_label(request).await?.into_inner();
    Ok(json::created(Label::new(require(answer.label, "label")?, &access.urls)))
}

async fn update(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: RepoPath,
    params: Params,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let access = api.access(&context, &path, operation::UPDATE_LABEL).await?;
    let mut fields = body.fields(&api.body_limits, MAX_JSON_BYTES).await?;
    let request = UpdateLabelRequest {
        repository_id: access.id,
        label_id: params.id("id"),
        name: fields.optional_non_empty("name"),
        color: fields.optional_text("color"),
    };
    let _permit = fields.finish()?;
    let request = context.request_with_grant(&access.grant, request);
    let answer = api.clients.labels().update_label(request).await?.into_inner();
    Ok(json::ok(Label::new(require(answer.label, "label")?, &access.urls)))
}

async fn remove(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: RepoPath,
    params: Params,
) -> Result<Response, ApiError> {
    let access = api.access(&context, &path, operation::DELETE_LABEL).await?;
    let request = DeleteLabelRequest { repository_id: access.id, label_id: params.id("id") };
    api.clients.labels().delete_label(context.request_with_grant(&access.grant, request)).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
