use ferrite_kit::idempotency::{IdempotencyKey, once};
use ferrite_proto::repo::{RemoveMemberRequest, RemoveMemberResponse};
use tonic::Request;

use super::super::change;
use crate::error::RepoError;
use crate::model::lookup_key;
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::{Action, OrganizationRole, Target};

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<RemoveMemberRequest>,
) -> Result<RemoveMemberResponse, RepoError> {
    let key = IdempotencyKey::of(&request, permit.user()?.0, "RemoveMember")?;
    once(&state.db, key.as_ref(), remove(state, &request.into_inner(), &permit, key.as_ref())).await
}

async fn remove(
    state: &AppState,
    request: &RemoveMemberRequest,
    permit: &Permit,
    key: Option<&IdempotencyKey>,
) -> Result<RemoveMemberResponse, RepoError> {
    let organization = permit.organization(&state.organizations, &request.organization).await?;
    let is_own = request.username.eq_ignore_ascii_case(&permit.identity()?.username);
    let is_owner = organization.role() == OrganizationRole::Owner || permit.viewer().is_site_administrator();
    if !is_own && !is_owner {
        return Err(RepoError::OrganizationOwnerRequired);
    }
    let name = lookup_key(&request.username).ok_or(RepoError::MemberNotFound)?;
    let user = state.accounts.find(&name).await?.ok_or(RepoError::MemberNotFound)?;
    let now = state.clock.now_us();
    let mut tx = state.db.begin().await?;
    state.organizations.lock(&mut tx, organization.id()).await?;
    if !state.organizations.leave(&mut tx, organization.id(), user.id).await? {
        return Err(RepoError::MemberNotFound);
    }
    let target = Target::organization(organization.id(), &organization.name);
    change::record(&mut tx, permit, Action::MemberRemove, target, &[("user", user.username)], now).await?;
    change::commit(tx, key, RemoveMemberResponse {}, now).await
}
