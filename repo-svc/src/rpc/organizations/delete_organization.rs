use ferrite_kit::idempotency::{IdempotencyKey, once};
use ferrite_proto::repo::{DeleteOrganizationRequest, DeleteOrganizationResponse};
use tonic::Request;

use super::super::change;
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::{Action, Target};

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<DeleteOrganizationRequest>,
) -> Result<DeleteOrganizationResponse, RepoError> {
    let key = IdempotencyKey::of(&request, permit.user()?.0, "DeleteOrganization")?;
    once(&state.db, key.as_ref(), delete(state, &request.into_inner(), &permit, key.as_ref())).await
}

async fn delete(
    state: &AppState,
    request: &DeleteOrganizationRequest,
    permit: &Permit,
    key: Option<&IdempotencyKey>,
) -> Result<DeleteOrganizationResponse, RepoError> {
    let organization = permit.organization(&state.organizations, &request.organization).await?;
    let now = state.clock.now_us();
    let mut tx = state.db.begin().await?;
    if !state.organizations.lock(&mut tx, organization.id()).await? {
        return Err(RepoError::OrganizationNotFound);
    }
    state.organizations.delete(&mut tx, organization.id()).await?;
    let target = Target::organization(organization.id(), &organization.name);
    change::record(&mut tx, permit, Action::OrganizationDelete, target, &[], now).await?;
    let answer = change::commit(tx, key, DeleteOrganizationResponse {}, now).await?;
    tracing::info!(organization.id = organization.id, user.id = permit.user()?.0, "deleted organization");
    Ok(answer)
}
