use ferrite_kit::idempotency::IdempotencyKey;
use ferrite_proto::repo::{SetMembershipVisibilityRequest, SetMembershipVisibilityResponse};
use tonic::Request;

use super::super::{change, repeat};
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::{Action, Target};

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<SetMembershipVisibilityRequest>,
) -> Result<SetMembershipVisibilityResponse, RepoError> {
    let key = IdempotencyKey::of(&request, permit.user()?.0, "SetMembershipVisibility")?;
    let access = repeat::organization(state, &permit, request.get_ref().organization.clone());
    repeat::once(&state.db, key.as_ref(), access, set(state, &request.into_inner(), &permit, key.as_ref())).await
}

async fn set(
    state: &AppState,
    request: &SetMembershipVisibilityRequest,
    permit: &Permit,
    key: Option<&IdempotencyKey>,
) -> Result<SetMembershipVisibilityResponse, RepoError> {
    let organization = permit.organization(&state.organizations, &request.organization).await?;
    let (id, caller, now) = (organization.id(), permit.user()?, state.clock.now_us());
    let mut tx = state.db.begin().await?;
    state.organizations.lock(&mut tx, id).await?;
    // An administrator of the site gets here without being a member.
    if state.organizations.membership_in(&mut tx, id, caller).await?.is_none() {
        return Err(RepoError::MemberNotFound);
    }
    if state.organizations.set_visibility(&mut tx, id, caller, request.is_public).await? {
        let details = [("user", permit.identity()?.username.clone()), ("public", request.is_public.to_string())];
        let target = Target::organization(id, &organization.name);
        change::record(&mut tx, permit, Action::MemberSet, target, &details, now).await?;
    }
    change::commit(tx, key, SetMembershipVisibilityResponse {}, now).await
}
