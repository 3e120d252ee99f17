//! The RPCs of labels of organizations.

use ferrite_core::page::Page;
use ferrite_db::idempotency::{IdempotencyKey, once};
use ferrite_proto::grant::{Grant, Subject};
use ferrite_proto::id::OrganizationId;
use ferrite_proto::issue::*;
use ferrite_rpc::auth::{AuthError, Caller, OperationSubject};
use ferrite_rpc::version;
use tonic::Request;

use super::{MAX_PAGE_SIZE, decode_edit, decode_new, find, user};
use crate::encode;
use crate::error::IssueError;
use crate::model::LabelOwner;
use crate::state::AppState;
use crate::store::CounterChange;
use crate::writer::wake_purges;

/// Returns the organization of this name, and the caller's grant for the operation of `request` on
/// it.
async fn authorize<T>(
    state: &AppState,
    request: &Request<T>,
    name: &str,
) -> Result<(LabelOwner, std::sync::Arc<Grant>), IssueError> {
    let subject = OperationSubject::Organization(name);
    let grant = state.authorizer.authorize_subject(&Caller::of(request), subject).await?;
    match grant.subject {
        Subject::Organization { id, .. } => Ok((LabelOwner::Organization(OrganizationId(id)), grant)),
        Subject::Repository | Subject::Site | Subject::User => Err(AuthError::BadGrant.into()),
    }
}

pub(super) async fn list_organization_labels(
    state: &AppState,
    request: Request<ListOrganizationLabelsRequest>,
) -> Result<ListOrganizationLabelsResponse, IssueError> {
    let (owner, _) = authorize(state, &request, &request.get_ref().organization).await?;
    let request = request.into_inner();
    let page = Page::parse(request.page, request.page_size, MAX_PAGE_SIZE).map_err(IssueError::Invalid)?;
    let (labels, total_count) = state.store.list_labels(owner, page).await?;
    Ok(ListOrganizationLabelsResponse { labels: labels.into_iter().map(encode::label).collect(), total_count })
}

pub(super) async fn get_organization_label(
    state: &AppState,
    request: Request<GetOrganizationLabelRequest>,
) -> Result<GetOrganizationLabelResponse, IssueError> {
    let (owner, _) = authorize(state, &request, &request.get_ref().organization).await?;
    let label = encode::label(find(state, owner, &request.get_ref().label).await?);
    version::tell(&label);
    Ok(GetOrganizationLabelResponse { label: Some(label) })
}

pub(super) async fn create_organization_label(
    state: &AppState,
    request: Request<CreateOrganizationLabelRequest>,
) -> Result<CreateOrganizationLabelResponse, IssueError> {
    let (owner, grant) = authorize(state, &request, &request.get_ref().organization).await?;
    let key = IdempotencyKey::of(&request, user(&grant)?.0, "CreateOrganizationLabel")?;
    let request = request.into_inner();
    let create = async {
        let new = decode_new(&request.name, &request.color, &request.description)?;
        let change = CounterChange { labels: 1, ..CounterChange::default() };
        let mut write = state.writer.begin_labels(owner, change).await?;
        let label = write.add_label(&new).await?;
        let response = CreateOrganizationLabelResponse { label: Some(encode::label(label)) };
        write.commit(key.as_ref(), response).await
    };
    once(state.store.db(), key.as_ref(), create).await
}

pub(super) async fn update_organization_label(
    state: &AppState,
    request: Request<UpdateOrganizationLabelRequest>,
) -> Result<UpdateOrganizationLabelResponse, IssueError> {
    let (owner, grant) = authorize(state, &request, &request.get_ref().organization).await?;
    let key = IdempotencyKey::of(&request, user(&grant)?.0, "UpdateOrganizationLabel")?;
    let request = request.into_inner();
    let update = async {
        let edit = decode_edit(request.name.as_deref(), request.color.as_deref(), request.description.as_deref())?;
        let mut write = state.writer.begin_labels(owner, CounterChange::default()).await?;
        let label = write.change_label(request.label_id, &edit).await?;
        let response = UpdateOrganizationLabelResponse { label: Some(encode::label(label)) };
        write.commit(key.as_ref(), response).await
    };
    once(state.store.db(), key.as_ref(), update).await
}

pub(super) async fn delete_organization_label(
    state: &AppState,
    request: Request<DeleteOrganizationLabelRequest>,
) -> Result<DeleteOrganizationLabelResponse, IssueError> {
    let (owner, grant) = authorize(state, &request, &request.get_ref().organization).await?;
    let key = IdempotencyKey::of(&request, user(&grant)?.0, "DeleteOrganizationLabel")?;
    let request = request.into_inner();
    let delete = async {
        let mut write = state.writer.begin_labels(owner, CounterChange::default()).await?;
        write.delete_label(request.label_id).await?;
        write.commit(key.as_ref(), DeleteOrganizationLabelResponse {}).await
    };
    let response = once(state.store.db(), key.as_ref(), delete).await?;
    wake_purges();
    Ok(response)
}
