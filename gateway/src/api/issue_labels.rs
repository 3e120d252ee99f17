//! Labels of an issue: listed, added, replaced and removed. Not here: the labels of a repository.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use ferrite_proto::issue::{ChangeIssueLabelsRequest, LabelChange, ListIssueLabelsRequest};
use ferrite_proto::operation;

use super::access::Access;
use super::state::ApiState;
use super::tracker::prefer_refusal;
use crate::auth::{Authenticated, RequestContext};
use crate::dto::Label;
use crate::http::body::JsonBody;
use crate::http::body_limits::MAX_JSON_BYTES;
use crate::http::error::ApiError;
use crate::http::json;
use crate::http::path::{Params, RepoPath};
use crate::http::routes::routes;

/// Reasons for a missing target, which is told after mistakes in the request.
const MISSING: &[&str] = &["ISSUE_NOT_FOUND"];

routes! { ApiState:
    "/api/v1/repos/{owner}/{repo}/issues/{index}/labels" =>
        get list as operation::LIST_ISSUE_LABELS,
        post add as operation::CHANGE_ISSUE_LABELS,
        put replace as operation::CHANGE_ISSUE_LABELS,
        delete clear as operation::CHANGE_ISSUE_LABELS;
    "/api/v1/repos/{owner}/{repo}/issues/{index}/labels/{id}" => delete remove as operation::CHANGE_ISSUE_LABELS;
}

async fn list(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: RepoPath,
    params: Params,
) -> Result<Response, ApiError> {
    let access = api.access(&context, &path, operation::LIST_ISSUE_LABELS).await?;
    let request = ListIssueLabelsRequest { repository_id: access.id, issue_number: params.id("index") };
    let request = context.request_with_grant(&access.grant, request);
    let answer = api.clients.labels().list_issue_labels(request).await?.into_inner();
    let labels: Vec<_> = answer.labels.into_iter().map(|label| Label::new(label, &access.urls)).collect();
    Ok(json::ok(labels))
}

async fn add(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: RepoPath,
    params: Params,
    body: JsonBody,
) -> Result<Response, ApiError> {
    change_by_body(&api, &context, &path, &params, body, LabelChange::Add).await
}

/// Replaces all labels by those of the body. One without labels clears them.
async fn replace(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: RepoPath,
    params: Params,
    body: JsonBody,
) -> Result<Response, ApiError> {
    change_by_body(&api, &context, &path, &params, body, LabelChange::Replace).await
}

async fn clear(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: RepoPath,
    params: Params,
) -> Result<Response, ApiError> {
    let access = api.access(&context, &path, operation::CHANGE_ISSUE_LABELS).await?;
    change(&api, &context, &access, request(&access, &params, LabelChange::Replace)).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn remove(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: RepoPath,
    params: Params,
) -> Result<Response, ApiError> {
    let access = api.access(&context, &path, operation::CHANGE_ISSUE_LABELS).await?;
    let request = request(&access, &params, LabelChange::Remove);
    change(&api, &context, &access, ChangeIssueLabelsRequest { label_ids: vec![params.id("id")], ..request }).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Changes the labels by the ids in a body: an object with `labels`, or the list alone.
async fn change_by_body(
    api: &ApiState,
    context: &RequestContext,
    path: &RepoPath,
    params: &Params,
    body: JsonBody,
    kind: LabelChange,
) -> Result<Response, ApiError> {
    let access = api.access(context, path, operation::CHANGE_ISSUE_LABELS).await?;
    let request = request(&access, params, kind);
    let label_ids = match ids(api, body).await {
        Ok(label_ids) => label_ids,
        Err(error) => {
            let check =
                context.check_with_grant(&access.grant, ChangeIssueLabelsRequest { check_only: true, ..request });
            return Err(prefer_refusal(api.clients.labels().change_issue_labels(check).await, error, MISSING));
        }
    };
    let labels = change(api, context, &access, ChangeIssueLabelsRequest { label_ids, ..request }).await?;
    Ok(json::ok(labels))
}

async fn ids(api: &ApiState, body: JsonBody) -> Result<Vec<i64>, ApiError> {
    let mut fields = body.fields_or_list(&api.body_limits, MAX_JSON_BYTES, "labels").await?;
    let ids = fields.numbers("labels");
    // The body is an ordinary one, without a permit to hold.
    fields.finish().map(|_permit| ids)
}

/// Returns the request for a change of the issue's labels, without labels.
fn request(access: &Access, params: &Params, kind: LabelChange) -> ChangeIssueLabelsRequest {
    ChangeIssueLabelsRequest {
        repository_id: access.id,
        issue_number: params.id("index"),
        change: kind.into(),
        label_ids: Vec::new(),
        check_only: false,
    }
}

/// Carries out a change and returns the labels of the issue after it.
async fn change(
    api: &ApiState,
    context: &RequestContext,
    access: &Access,
    request: ChangeIssueLabelsRequest,
) -> Result<Vec<Label>, ApiError> {
    let request = context.request_with_grant(&access.grant, request);
    let answer = api.clients.labels().change_issue_labels(request).await?.into_inner();
    Ok(answer.labels.into_iter().map(|label| Label::new(label, &access.urls)).collect())
}
