use ferrite_kit::idempotency::{IdempotencyKey, once};
use ferrite_proto::repo::{DeleteOrganizationRequest, DeleteOrganizationResponse};
use tonic::Request;

use super::super::change;
use crate::RepoError;
use crate::access::Permit;
use crate::core::Core;
use crate::store::{Action, Target};

pub(super) async fn handle(
    core: &Core,
    permit: Permit,
    request: Request<DeleteOrganizationRequest>,
) -> Result<DeleteOrganizationResponse, RepoError> {
    let key = IdempotencyKey::of(&request, permit.user()?.0, "DeleteOrganization")?;
    once(&core.db, key.as_ref(), delete(core, &request.into_inner(), &permit, key.as_ref())).await
}

async fn delete(
    core: &Core,
    request: &DeleteOrganizationRequest,
    permit: &Permit,
    key: Option<&IdempotencyKey>,
) -> Result<DeleteOrganizationResponse, RepoError> {
    let organization = permit.organization(core, &request.organization).await?;
    let now = core.clock.now_us();
    let mut tx = core.db.begin().await?;
    if !core.organizations.lock(&mut tx, organization.id()).await? {
        return Err(RepoError::OrganizationNotFound);
    }
    core.organizations.delete(&mut tx, organization.id()).await?;
    let target = Target::organization(organization.id(), &organization.name);
    change::record(&mut tx, permit, Action::OrganizationDelete, target, &[], now).await?;
    let answer = change::commit(tx, key, DeleteOrganizationResponse {}, now).await?;
    tracing::info!(organization.id = organization.id, user.id = permit.user()?.0, "deleted organization");
    Ok(answer)
}
