use ferrite_kit::idempotency::IdempotencyKey;
use ferrite_proto::repo::{UpdateOrganizationRequest, UpdateOrganizationResponse};
use tonic::Request;

use super::super::{change, encode, repeat};
use crate::error::RepoError;
use crate::model::OrganizationChange;
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::{Action, Target};

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<UpdateOrganizationRequest>,
) -> Result<UpdateOrganizationResponse, RepoError> {
    let key = IdempotencyKey::of(&request, permit.user()?.0, "UpdateOrganization")?;
    let access = repeat::organization(state, &permit, request.get_ref().organization.clone());
    repeat::once(&state.db, key.as_ref(), access, update(state, &request.into_inner(), &permit, key.as_ref())).await
}

async fn update(
    state: &AppState,
    request: &UpdateOrganizationRequest,
    permit: &Permit,
    key: Option<&IdempotencyKey>,
) -> Result<UpdateOrganizationResponse, RepoError> {
    let id = permit.organization(&state.organizations, &request.organization).await?.id();
    let wanted = OrganizationChange::check(request)?;
    let (now, viewer) = (state.clock.now_us(), permit.viewer().user());
    let mut tx = state.db.begin().await?;
    state.organizations.lock(&mut tx, id).await?;
    let old = state.organizations.reload(&mut tx, id, viewer).await?.ok_or(RepoError::OrganizationNotFound)?;
    let fields = state.organizations.update(&mut tx, &old, &wanted).await?;
    if !fields.is_empty() {
        let target = Target::organization(id, &old.name);
        let details = [("fields", fields.join(","))];
        change::record(&mut tx, permit, Action::OrganizationUpdate, target, &details, now).await?;
    }
    let new = state.organizations.reload(&mut tx, id, viewer).await?.ok_or(RepoError::OrganizationNotFound)?;
    change::commit(tx, key, UpdateOrganizationResponse { organization: Some(encode::organization(new)) }, now).await
}
