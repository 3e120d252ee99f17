use ferrite_kit::idempotency::IdempotencyKey;
use ferrite_proto::repo::{RemoveMemberRequest, RemoveMemberResponse};
use tonic::Request;

use super::super::{change, repeat};
use crate::error::RepoError;
use crate::model::lookup_key;
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::{Action, Organization, OrganizationRole, Target};

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<RemoveMemberRequest>,
) -> Result<RemoveMemberResponse, RepoError> {
    let key = IdempotencyKey::of(&request, permit.user()?.0, "RemoveMember")?;
    let RemoveMemberRequest { organization, username } = request.get_ref().clone();
    let access = async {
        // After a member has left, there is no role of its own to check.
        match username.eq_ignore_ascii_case(&permit.identity()?.username) {
            true => Ok(()),
            false => require_owner(&permit, &permit.organization(&state.organizations, &organization).await?),
        }
    };
    repeat::once(&state.db, key.as_ref(), access, remove(state, &request.into_inner(), &permit, key.as_ref())).await
}

/// Checks that the caller may remove others.
fn require_owner(permit: &Permit, organization: &Organization) -> Result<(), RepoError> {
    match organization.role() == OrganizationRole::Owner || permit.viewer().is_site_administrator() {
        true => Ok(()),
        false => Err(RepoError::OrganizationOwnerRequired),
    }
}

async fn remove(
    state: &AppState,
    request: &RemoveMemberRequest,
    permit: &Permit,
    key: Option<&IdempotencyKey>,
) -> Result<RemoveMemberResponse, RepoError> {
    let organization = permit.organization(&state.organizations, &request.organization).await?;
    if !request.username.eq_ignore_ascii_case(&permit.identity()?.username) {
        require_owner(permit, &organization)?;
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
