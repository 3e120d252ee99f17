use ferrite_kit::idempotency::IdempotencyKey;
use ferrite_proto::repo::{RemoveMemberRequest, RemoveMemberResponse};
use tonic::Request;

use super::super::{change, lost_rights, repeat};
use crate::access::RequiredRole;
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::{Action, Target};

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<RemoveMemberRequest>,
) -> Result<RemoveMemberResponse, RepoError> {
    let key = IdempotencyKey::of(&request, permit.user()?.0, "RemoveMember")?;
    let RemoveMemberRequest { organization, username } = request.get_ref().clone();
    let access = async {
        // After a member has left, there is no role of its own to check.
        if username.eq_ignore_ascii_case(&permit.identity()?.username) {
            return Ok(());
        }
        let organization = permit.organization(&state.organizations, &organization).await?;
        permit.require_role(RequiredRole::Owner, organization.role())
    };
    repeat::once(&state.db, key.as_ref(), access, remove(state, &request.into_inner(), &permit, key.as_ref())).await
}

async fn remove(
    state: &AppState,
    request: &RemoveMemberRequest,
    permit: &Permit,
    key: Option<&IdempotencyKey>,
) -> Result<RemoveMemberResponse, RepoError> {
    let organization = permit.organization(&state.organizations, &request.organization).await?;
    if !request.username.eq_ignore_ascii_case(&permit.identity()?.username) {
        permit.require_role(RequiredRole::Owner, organization.role())?;
    }
    let user = state.accounts.find(&request.username).await?.ok_or(RepoError::MemberNotFound)?;
    let now = state.clock.now_us();
    let mut tx = state.db.begin().await?;
    state.organizations.lock(&mut tx, organization.id()).await?;
    if !state.organizations.leave(&mut tx, organization.id(), user.id).await? {
        return Err(RepoError::MemberNotFound);
    }
    lost_rights::end_waiting(state, &mut tx, permit, user.id, now).await?;
    let target = Target::organization(organization.id(), &organization.name);
    change::record(&mut tx, permit, Action::MemberRemove, target, &[("user", user.username)], now).await?;
    change::commit(tx, key, RemoveMemberResponse {}, now).await
}
