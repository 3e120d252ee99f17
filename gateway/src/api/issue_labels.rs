//! Labels of an issue: listed, added, replaced and removed. Not here: the labels of a repository.

use ferrite_proto::issue::{ChangeIssueLabelsRequest, LabelChange, ListIssueLabelsRequest};
use ferrite_proto::operation;

use super::access::{ResolvedAccess, after_refusal};
use super::call::{ApiCall, Authenticated, routes};
use crate::dto::Label;
use crate::http::body::JsonBody;
use crate::http::body_limits::MAX_JSON_BYTES;
use crate::http::error::{ApiError, ApiResult};
use crate::http::json;
use crate::http::path::{Params, RepoPath};

routes! {
    "/api/v1/repos/{owner}/{repo}/issues/{index}/labels" =>
        get list as operation::LIST_ISSUE_LABELS,
        post add as operation::CHANGE_ISSUE_LABELS,
        put replace as operation::CHANGE_ISSUE_LABELS,
        delete clear as operation::CHANGE_ISSUE_LABELS;
    "/api/v1/repos/{owner}/{repo}/issues/{index}/labels/{id}" => delete remove as operation::CHANGE_ISSUE_LABELS;
}

async fn list(Authenticated(call): Authenticated, path: RepoPath, params: Params) -> ApiResult {
    let access = call.access(&path, operation::LIST_ISSUE_LABELS).await?;
    let request = ListIssueLabelsRequest { repository_id: access.id, issue_number: params.id("index") };
    let request = call.request_with_grant(&access.grant, request);
    let response = call.clients.labels().list_issue_labels(request).await?.into_inner();
    let labels: Vec<_> = response.labels.into_iter().map(|label| Label::new(label, &access.urls)).collect();
    Ok(json::ok(labels))
}

async fn add(Authenticated(call): Authenticated, path: RepoPath, params: Params, body: JsonBody) -> ApiResult {
    change_by_body(&call, &path, &params, body, LabelChange::Add).await
}

/// Replaces all labels by those of the body. One without labels clears them.
async fn replace(Authenticated(call): Authenticated, path: RepoPath, params: Params, body: JsonBody) -> ApiResult {
    change_by_body(&call, &path, &params, body, LabelChange::Replace).await
}

async fn clear(Authenticated(call): Authenticated, path: RepoPath, params: Params) -> ApiResult {
    let access = call.access(&path, operation::CHANGE_ISSUE_LABELS).await?;
    change(&call, &access, request(&access, &params, LabelChange::Replace)).await?;
    Ok(json::no_content())
}

async fn remove(Authenticated(call): Authenticated, path: RepoPath, params: Params) -> ApiResult {
    let access = call.access(&path, operation::CHANGE_ISSUE_LABELS).await?;
    let request = request(&access, &params, LabelChange::Remove);
    change(&call, &access, ChangeIssueLabelsRequest { label_ids: vec![params.id("id")], ..request }).await?;
    Ok(json::no_content())
}

/// Changes the labels by the ids in a body: an object with `labels`, or the list alone.
async fn change_by_body(
    call: &ApiCall,
    path: &RepoPath,
    params: &Params,
    body: JsonBody,
    kind: LabelChange,
) -> ApiResult {
    let access = call.access(path, operation::CHANGE_ISSUE_LABELS).await?;
    let blank = request(&access, params, LabelChange::Unspecified);
    let check = async { call.clients.labels().change_issue_labels(call.blank_with_grant(&access.grant, blank)).await };
    let label_ids = after_refusal(check, ids(call, body).await).await?;
    let access = call.confirm(access, operation::CHANGE_ISSUE_LABELS).await?;
    let request = ChangeIssueLabelsRequest { label_ids, ..request(&access, params, kind) };
    let labels = change(call, &access, request).await?;
    Ok(json::ok(labels))
}

async fn ids(call: &ApiCall, body: JsonBody) -> Result<Vec<i64>, ApiError> {
    let fields = body.fields_or_list(&call.body_limits, MAX_JSON_BYTES, "labels").await?;
    // The body is an ordinary one, without a permit to hold.
    fields.decode(|fields| fields.numbers("labels")).map(|(ids, _permit)| ids)
}

/// Returns the request for a change of the issue's labels, without labels.
fn request(access: &ResolvedAccess, params: &Params, kind: LabelChange) -> ChangeIssueLabelsRequest {
    ChangeIssueLabelsRequest {
        repository_id: access.id,
        issue_number: params.id("index"),
        change: kind.into(),
        ..Default::default()
    }
}

/// Carries out a change and returns the labels of the issue after it.
async fn change(
    call: &ApiCall,
    access: &ResolvedAccess,
    request: ChangeIssueLabelsRequest,
) -> Result<Vec<Label>, ApiError> {
    let request = call.request_with_grant(&access.grant, request);
    let response = call.clients.labels().change_issue_labels(request).await?.into_inner();
    Ok(response.labels.into_iter().map(|label| Label::new(label, &access.urls)).collect())
}
