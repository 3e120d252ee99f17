use ferrite_api_types::Label;
use ferrite_api_types::convert::require;
use ferrite_api_types::schema::{Schema, Schemas};
use ferrite_proto::issue::{
    self, ChangeIssueLabelsRequest, CreateLabelRequest, DeleteLabelRequest, GetLabelRequest, LabelChange,
    ListIssueLabelsRequest, ListLabelsRequest, UpdateLabelRequest,
};
use ferrite_proto::operation;
use serde_json::{Value, json};

use crate::api::access::{ResolvedAccess, after_refusal};
use crate::api::call::{ApiCall, Authenticated, MaybeAuthenticated, operations};
use crate::http::error::ApiResult;
use crate::http::page::WholeList;
use crate::http::path::{Params, RepoPath};
use crate::http::request::{
    Checked, Integer, Kind, Mistakes, NonEmpty, Optional, OrDefault, RequestBody, Text, fields,
};
use crate::http::response::{Created, Json, List, NoContent};
use crate::http::routes::variant;

operations! {
    "/api/v1/repos/{owner}/{repo}/labels" => get list as operation::LIST_LABELS, post create as operation::CREATE_LABEL;
    "/api/v1/repos/{owner}/{repo}/labels/{id}" =>
        get get as operation::GET_LABEL,
        patch update as operation::UPDATE_LABEL,
        delete remove as operation::DELETE_LABEL;
    "/api/v1/repos/{owner}/{repo}/issues/{index}/labels" =>
        get list_of_issue as operation::LIST_ISSUE_LABELS,
        post add as variant(operation::CHANGE_ISSUE_LABELS, "Add"),
        put replace as variant(operation::CHANGE_ISSUE_LABELS, "Replace"),
        delete clear as variant(operation::CHANGE_ISSUE_LABELS, "Clear");
    "/api/v1/repos/{owner}/{repo}/issues/{index}/labels/{id}" =>
        delete remove_of_issue as variant(operation::CHANGE_ISSUE_LABELS, "Remove");
}

fields! {
    /// A new label.
    pub(crate) struct NewLabel {
        pub(crate) name: Checked<Text<50>> = "bug",
        pub(crate) color: Checked<Text<7>> = "#e11d21",
        /// What the label is for.
        pub(crate) description: OrDefault<Text<255>> = "Something is not working",
    }
}

fields! {
    /// Changes of a label.
    pub(crate) struct ChangedLabel {
        /// The name, with the rules for a new label. An empty one changes nothing.
        pub(crate) name: NonEmpty<Text<50>> = "fault",
        /// The color, as for a new label.
        pub(crate) color: Optional<Text<7>> = "#fbca04",
        /// What the label is for. An empty text removes it.
        pub(crate) description: Optional<Text<255>> = "Something is broken",
    }
}

fields! {
    /// Labels of an issue.
    struct IssueLabels | labels {
        /// The ids or names of labels of the repository, or of the organization that owns it. A new issue takes only ids.
        labels: OrDefault<LabelReferences> = json!([5, "bug"]),
    }
}

/// Labels by id and by name, with at most one error. The service rejects more than 100.
enum LabelReferences {}

impl Kind for LabelReferences {
    /// Ids and names.
    type Value = (Vec<i64>, Vec<String>);

    fn read(name: &str, value: Value, mistakes: &mut Mistakes) -> Option<(Vec<i64>, Vec<String>)> {
        const EXPECTED: &str = "a list of ids and names of labels";
        let Value::Array(items) = value else { return mistakes.add_type(name, EXPECTED) };
        let (mut ids, mut names) = (Vec::new(), Vec::new());
        for item in items {
            match (item.as_i64(), item) {
                (Some(id), _) => ids.push(id),
                (None, text @ Value::String(_)) => names.push(<Text as Kind>::read(name, text, mistakes)?),
                (None, _) => return mistakes.add_type(name, EXPECTED),
            }
        }
        Some((ids, names))
    }

    fn schema(schemas: &mut Schemas) -> Schema {
        let label = json!({"anyOf": [<Integer as Kind>::schema(schemas), {"type": "string"}]});
        json!({"type": "array", "items": label, "maxItems": 100})
    }
}

fn label(label: Option<issue::Label>, access: &ResolvedAccess) -> ApiResult<Label> {
    Ok(Label::new(require(label, "label")?, &access.urls))
}

fn labels(labels: Vec<issue::Label>, access: &ResolvedAccess) -> Vec<Label> {
    labels.into_iter().map(|label| Label::new(label, &access.urls)).collect()
}

async fn list(
    MaybeAuthenticated(call): MaybeAuthenticated,
    path: RepoPath,
    query: WholeList,
) -> ApiResult<List<Label>> {
    let access = call.access(&path, operation::LIST_LABELS).await?;
    let request = ListLabelsRequest { repository_id: access.id, page: query.page.number, page_size: query.page.size };
    let request = call.request_with_grant(&access.grant, request);
    let response = call.clients.labels().list_labels(request).await?.into_inner();
    Ok(query.list(labels(response.labels, &access), response.total_count, &call.links))
}

/// Responds with a label, found by its id or its name.
async fn get(MaybeAuthenticated(call): MaybeAuthenticated, path: RepoPath, params: Params) -> ApiResult<Json<Label>> {
    let access = call.access(&path, operation::GET_LABEL).await?;
    let request = GetLabelRequest { repository_id: access.id, label: params.name("id") };
    let request = call.request_with_grant(&access.grant, request);
    let response = call.clients.labels().get_label(request).await?.into_inner();
    Ok(Json(label(response.label, &access)?))
}

async fn create(
    Authenticated(call): Authenticated,
    path: RepoPath,
    body: RequestBody<NewLabel>,
) -> ApiResult<Created<Label>> {
    let (access, NewLabel { name, color, description }, _permit) =
        call.access_and_body(&path, operation::CREATE_LABEL, body).await?;
    let request = CreateLabelRequest { repository_id: access.id, name, color, description };
    let request = call.request_with_grant(&access.grant, request);
    let response = call.clients.labels().create_label(request).await?.into_inner();
    let made = require(response.label, "label")?;
    Ok(Created::at(access.urls.label(made.id), Label::new(made, &access.urls)))
}

async fn update(
    Authenticated(call): Authenticated,
    path: RepoPath,
    params: Params,
    body: RequestBody<ChangedLabel>,
) -> ApiResult<Json<Label>> {
    let (access, ChangedLabel { name, color, description }, _permit) =
        call.access_and_body(&path, operation::UPDATE_LABEL, body).await?;
    let (repository_id, label_id) = (access.id, params.id("id"));
    let request = UpdateLabelRequest { repository_id, label_id, name, color, description };
    let request = call.request_with_grant(&access.grant, request);
    let response = call.clients.labels().update_label(request).await?.into_inner();
    Ok(Json(label(response.label, &access)?))
}

async fn remove(Authenticated(call): Authenticated, path: RepoPath, params: Params) -> ApiResult<NoContent> {
    let access = call.access(&path, operation::DELETE_LABEL).await?;
    let request = DeleteLabelRequest { repository_id: access.id, label_id: params.id("id") };
    call.clients.labels().delete_label(call.request_with_grant(&access.grant, request)).await?;
    Ok(NoContent)
}

async fn list_of_issue(
    MaybeAuthenticated(call): MaybeAuthenticated,
    path: RepoPath,
    params: Params,
) -> ApiResult<Json<Vec<Label>>> {
    let access = call.access(&path, operation::LIST_ISSUE_LABELS).await?;
    let request = ListIssueLabelsRequest { repository_id: access.id, issue_number: params.id("index") };
    let request = call.request_with_grant(&access.grant, request);
    let response = call.clients.labels().list_issue_labels(request).await?.into_inner();
    Ok(Json(labels(response.labels, &access)))
}

async fn add(
    Authenticated(call): Authenticated,
    path: RepoPath,
    params: Params,
    body: RequestBody<IssueLabels>,
) -> ApiResult<Json<Vec<Label>>> {
    change_by_body(&call, &path, &params, body, LabelChange::Add).await
}

/// Replaces all labels with those in the body. A body without labels removes all.
async fn replace(
    Authenticated(call): Authenticated,
    path: RepoPath,
    params: Params,
    body: RequestBody<IssueLabels>,
) -> ApiResult<Json<Vec<Label>>> {
    change_by_body(&call, &path, &params, body, LabelChange::Replace).await
}

async fn clear(Authenticated(call): Authenticated, path: RepoPath, params: Params) -> ApiResult<NoContent> {
    let access = call.access(&path, operation::CHANGE_ISSUE_LABELS).await?;
    change(&call, &access, request(&access, &params, LabelChange::Replace)).await?;
    Ok(NoContent)
}

async fn remove_of_issue(Authenticated(call): Authenticated, path: RepoPath, params: Params) -> ApiResult<NoContent> {
    let access = call.access(&path, operation::CHANGE_ISSUE_LABELS).await?;
    let request = request(&access, &params, LabelChange::Remove);
    change(&call, &access, ChangeIssueLabelsRequest { label_ids: vec![params.id("id")], ..request }).await?;
    Ok(NoContent)
}

/// Changes the labels by the ids and names in a body. issue-svc checks the permission before the client
/// learns about errors in the body.
async fn change_by_body(
    call: &ApiCall,
    path: &RepoPath,
    params: &Params,
    body: RequestBody<IssueLabels>,
    kind: LabelChange,
) -> ApiResult<Json<Vec<Label>>> {
    let access = call.access(path, operation::CHANGE_ISSUE_LABELS).await?;
    let blank = request(&access, params, LabelChange::Unspecified);
    let check = async { call.clients.labels().change_issue_labels(call.blank_with_grant(&access.grant, blank)).await };
    let (IssueLabels { labels: (label_ids, label_names) }, _permit) =
        after_refusal(check, body.read(&call.body_limits).await).await?;
    let access = call.confirm(access, operation::CHANGE_ISSUE_LABELS).await?;
    let request = ChangeIssueLabelsRequest { label_ids, label_names, ..request(&access, params, kind) };
    Ok(Json(change(call, &access, request).await?))
}

/// Returns the request for a change of an issue's labels, without label ids.
fn request(access: &ResolvedAccess, params: &Params, kind: LabelChange) -> ChangeIssueLabelsRequest {
    ChangeIssueLabelsRequest {
        repository_id: access.id,
        issue_number: params.id("index"),
        change: kind.into(),
        ..Default::default()
    }
}

async fn change(call: &ApiCall, access: &ResolvedAccess, request: ChangeIssueLabelsRequest) -> ApiResult<Vec<Label>> {
    let request = call.request_with_grant(&access.grant, request);
    let response = call.clients.labels().change_issue_labels(request).await?.into_inner();
    Ok(labels(response.labels, access))
}
