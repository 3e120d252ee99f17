use ferrite_kit::idempotency::{IdempotencyKey, once};
use ferrite_proto::repo::{UpdateOrganizationRequest, UpdateOrganizationResponse};
use tonic::Request;

use super::super::change;
use super::encode;
use crate::RepoError;
use crate::access::Permit;
use crate::core::Core;
use crate::model::OrganizationChange;
use crate::store::{Action, Target};

pub(super) async fn handle(
    core: &Core,
    permit: Permit,
    request: Request<UpdateOrganizationRequest>,
) -> Result<UpdateOrganizationResponse, RepoError> {
    let key = IdempotencyKey::of(&request, permit.user()?.0, "UpdateOrganization")?;
    once(&core.db, key.as_ref(), update(core, &request.into_inner(), &permit, key.as_ref())).await
}

async fn update(
    core: &Core,
    request: &UpdateOrganizationRequest,
    permit: &Permit,
    key: Option<&IdempotencyKey>,
) -> Result<UpdateOrganizationResponse, RepoError> {
    let id = permit.organization(core, &request.organization).await?.id();
    let wanted = OrganizationChange::check(request)?;
    let (now, viewer) = (core.clock.now_us(), permit.viewer().user());
    let mut tx = core.db.begin().await?;
    core.organizations.lock(&mut tx, id).await?;
    let old = core.organizations.reload(&mut tx, id, viewer).await?.ok_or(RepoError::OrganizationNotFound)?;
    let fields = core.organizations.update(&mut tx, &old, &wanted).await?;
    if !fields.is_empty() {
        let target = Target::organization(id, &old.name);
        let details = [("fields", fields.join(","))];
        change::record(&mut tx, permit, Action::OrganizationUpdate, target, &details, now).await?;
    }
    let new = core.organizations.reload(&mut tx, id, viewer).await?.ok_or(RepoError::OrganizationNotFound)?;
    change::commit(tx, key, UpdateOrganizationResponse { organization: Some(encode(new)) }, now).await
}
