//! The RPCs of labels and of the labels of issues.

use std::collections::BTreeSet;

use ferrite_core::id_or_name::IdOrName;
use ferrite_core::page::Page;
use ferrite_db::idempotency::{IdempotencyKey, once, once_or_rebuild};
use ferrite_listener::service;
use ferrite_proto::error::FieldViolation;
use ferrite_proto::id::RepositoryId;
use ferrite_proto::issue::label_service_server::LabelService;
use ferrite_proto::issue::*;
use ferrite_rpc::version;
use tonic::Request;

use self::organizations::{
    create_organization_label, delete_organization_label, get_organization_label, list_organization_labels,
    update_organization_label,
};
use super::user;
use crate::encode;
use crate::error::IssueError;
use crate::model::{Color, Label, LabelDescription, LabelEdit, LabelName, LabelOwner, NewLabel};
use crate::state::AppState;
use crate::store::CounterChange;
use crate::writer::{IssueLabelChange, MAX_ISSUE_LABELS};

mod organizations;

const MAX_PAGE_SIZE: i32 = 1000;

service!(LabelService for AppState {
    list_labels(ListLabelsRequest) -> ListLabelsResponse;
    get_label(GetLabelRequest) -> GetLabelResponse;
    create_label(CreateLabelRequest) -> CreateLabelResponse;
    update_label(UpdateLabelRequest) -> UpdateLabelResponse;
    delete_label(DeleteLabelRequest) -> DeleteLabelResponse;
    list_organization_labels(ListOrganizationLabelsRequest) -> ListOrganizationLabelsResponse;
    get_organization_label(GetOrganizationLabelRequest) -> GetOrganizationLabelResponse;
    create_organization_label(CreateOrganizationLabelRequest) -> CreateOrganizationLabelResponse;
    update_organization_label(UpdateOrganizationLabelRequest) -> UpdateOrganizationLabelResponse;
    delete_organization_label(DeleteOrganizationLabelRequest) -> DeleteOrganizationLabelResponse;
    list_issue_labels(ListIssueLabelsRequest) -> ListIssueLabelsResponse;
    change_issue_labels(ChangeIssueLabelsRequest) -> ChangeIssueLabelsResponse;
});

async fn list_labels(state: &AppState, request: Request<ListLabelsRequest>) -> Result<ListLabelsResponse, IssueError> {
    state.authorize_settings(&request, request.get_ref().repository_id).await?;
    let request = request.into_inner();
    let page = Page::parse(request.page, request.page_size, MAX_PAGE_SIZE).map_err(IssueError::Invalid)?;
    let (labels, total_count) = state.store.list_labels(repository(request.repository_id), page).await?;
    Ok(ListLabelsResponse { labels: labels.into_iter().map(encode::label).collect(), total_count })
}

async fn get_label(state: &AppState, request: Request<GetLabelRequest>) -> Result<GetLabelResponse, IssueError> {
    state.authorize_settings(&request, request.get_ref().repository_id).await?;
    let GetLabelRequest { repository_id, label } = request.into_inner();
    let label = encode::label(find(state, repository(repository_id), &label).await?);
    version::tell(&label);
    Ok(GetLabelResponse { label: Some(label) })
}

fn repository(id: i64) -> LabelOwner {
    LabelOwner::Repository(RepositoryId(id))
}

/// Finds a label of an owner by id or by name.
async fn find(state: &AppState, owner: LabelOwner, label: &str) -> Result<Label, IssueError> {
    let (store, reference) = (&state.store, IdOrName::new(label));
    let (ids, names) = (reference.id(), [label.to_owned()]);
    let found = store.labels_matching(store.reader(), &[owner], ids.as_slice(), &names).await?;
    reference.find(&found, |label| (label.id, &label.name)).cloned().ok_or(IssueError::LabelNotFound)
}

/// Checks the fields of a new label. Reports all violations.
fn decode_new(name: &str, color: &str, description: &str) -> Result<NewLabel, IssueError> {
    match (LabelName::parse(name), Color::parse(color), LabelDescription::parse(description)) {
        (Ok(name), Ok(color), Ok(description)) => Ok(NewLabel { name, color, description }),
        (name, color, description) => Err(IssueError::invalid([name.err(), color.err(), description.err()])),
    }
}

/// Like [`decode_new`], for a change.
fn decode_edit(name: Option<&str>, color: Option<&str>, description: Option<&str>) -> Result<LabelEdit, IssueError> {
    let name = name.map(LabelName::parse).transpose();
    let color = color.map(Color::parse).transpose();
    let description = description.map(LabelDescription::parse).transpose();
    match (name, color, description) {
        (Ok(name), Ok(color), Ok(description)) => Ok(LabelEdit { name, color, description }),
        (name, color, description) => Err(IssueError::invalid([name.err(), color.err(), description.err()])),
    }
}

async fn create_label(
    state: &AppState,
    request: Request<CreateLabelRequest>,
) -> Result<CreateLabelResponse, IssueError> {
    let grant = state.authorize_settings(&request, request.get_ref().repository_id).await?;
    let key = IdempotencyKey::of(&request, user(&grant)?.0, "CreateLabel")?;
    let request = request.into_inner();
    let create = async {
        let new = decode_new(&request.name, &request.color, &request.description)?;
        let change = CounterChange { labels: 1, ..CounterChange::default() };
        let mut write = state.writer.begin_labels(repository(request.repository_id), change).await?;
        let label = write.add_label(&new).await?;
        write.commit(key.as_ref(), CreateLabelResponse { label: Some(encode::label(label)) }).await
    };
    once(state.store.db(), key.as_ref(), create).await
}

async fn update_label(
    state: &AppState,
    request: Request<UpdateLabelRequest>,
) -> Result<UpdateLabelResponse, IssueError> {
    let grant = state.authorize_settings(&request, request.get_ref().repository_id).await?;
    let key = IdempotencyKey::of(&request, user(&grant)?.0, "UpdateLabel")?;
    let request = request.into_inner();
    let update = async {
        let edit = decode_edit(request.name.as_deref(), request.color.as_deref(), request.description.as_deref())?;
        let owner = repository(request.repository_id);
        let mut write = state.writer.begin_labels(owner, CounterChange::default()).await?;
        let label = write.change_label(request.label_id, &edit).await?;
        write.commit(key.as_ref(), UpdateLabelResponse { label: Some(encode::label(label)) }).await
    };
    once(state.store.db(), key.as_ref(), update).await
}

async fn delete_label(
    state: &AppState,
    request: Request<DeleteLabelRequest>,
) -> Result<DeleteLabelResponse, IssueError> {
    let grant = state.authorize_settings(&request, request.get_ref().repository_id).await?;
    let key = IdempotencyKey::of(&request, user(&grant)?.0, "DeleteLabel")?;
    let request = request.into_inner();
    let delete = async {
        let owner = repository(request.repository_id);
        let mut write = state.writer.begin_labels(owner, CounterChange::default()).await?;
        write.delete_label(request.label_id).await?;
        write.commit(key.as_ref(), DeleteLabelResponse {}).await
    };
    once(state.store.db(), key.as_ref(), delete).await
}

async fn list_issue_labels(
    state: &AppState,
    request: Request<ListIssueLabelsRequest>,
) -> Result<ListIssueLabelsResponse, IssueError> {
    let ListIssueLabelsRequest { repository_id, issue_number: number } = *request.get_ref();
    state.authorize_on(&request, repository_id, number).await?;
    let issue = state.full_issue(RepositoryId(repository_id), number).await?;
    let response = ListIssueLabelsResponse { labels: issue.labels.into_iter().map(encode::label).collect() };
    version::tell(&response);
    Ok(response)
}

async fn change_issue_labels(
    state: &AppState,
    request: Request<ChangeIssueLabelsRequest>,
) -> Result<ChangeIssueLabelsResponse, IssueError> {
    let (repository_id, number) = (request.get_ref().repository_id, request.get_ref().issue_number);
    let grant = state.authorize_on(&request, repository_id, number).await?;
    let actor = user(&grant)?;
    let key = IdempotencyKey::of(&request, actor.0, "ChangeIssueLabels")?;
    let request = request.into_inner();
    let repository = RepositoryId(request.repository_id);
    let work = async {
        let change = request.change();
        // Gateways of the previous version set `check_only` if they want no change.
        if change == LabelChange::Unspecified || request.check_only {
            return Err(FieldViolation::new("change", "required", "must be `add`, `replace` or `remove`").into());
        }
        let ids: BTreeSet<i64> = request.label_ids.iter().copied().collect();
        if ids.len() + request.label_names.len() > MAX_ISSUE_LABELS {
            return Err(FieldViolation::new("labels", "too_many", "an issue can have at most 100 labels").into());
        }
        let names = request.label_names;
        let change = IssueLabelChange { kind: change, ids, names, organization: grant.organization_id() };
        let mut write = state.writer.begin(repository, CounterChange::default()).await?;
        let issue = write.issue(request.issue_number).await?;
        write.require_issue_labels(&issue).await?;
        let labels = write.change_labels(&issue, change, actor).await?;
        let labels = labels.into_iter().map(encode::label).collect();
        write.commit_with_subject(key.as_ref(), ChangeIssueLabelsResponse { labels }, request.issue_number).await
    };
    let rebuild = |number: i64| async move {
        let labels = state.full_issue(repository, number).await?.labels;
        Ok(ChangeIssueLabelsResponse { labels: labels.into_iter().map(encode::label).collect() })
    };
    once_or_rebuild(state.store.db(), key.as_ref(), rebuild, work).await
}
