//! `SetMembership`: a member of an organization, as an owner or not.

use ferrite_kit::db::Tx;
use ferrite_kit::idempotency::IdempotencyKey;
use ferrite_proto::id::UserId;
use ferrite_proto::repo::{MembershipRole, SetMembershipRequest, SetMembershipResponse};
use tonic::Request;

use super::super::{change, lookup, lost_rights, repeat, writer};
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::{Action, Target};

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<SetMembershipRequest>,
) -> Result<SetMembershipResponse, RepoError> {
    let key = IdempotencyKey::of(&request, permit.user()?.0, "SetMembership")?;
    let access = repeat::organization(state, &permit, request.get_ref().organization.clone());
    repeat::once(&state.db, key.as_ref(), access, set(state, &request.into_inner(), &permit, key.as_ref())).await
}

async fn set(
    state: &AppState,
    request: &SetMembershipRequest,
    permit: &Permit,
    key: Option<&IdempotencyKey>,
) -> Result<SetMembershipResponse, RepoError> {
    let organization = permit.organization(&state.organizations, &request.organization).await?;
    let (is_owner, role) = match MembershipRole::try_from(request.role) {
        Ok(MembershipRole::Admin) => (true, "admin"),
        Ok(MembershipRole::Member | MembershipRole::Unspecified) => (false, "member"),
        Err(_) => return Err(RepoError::field("role", "unknown", "must be `admin` or `member`")),
    };
    let user = lookup::user(state, &request.username).await?;
    let before = state.organizations.membership(organization.id(), user.id).await?;
    writer::never_refuse_if(!is_owner && before.is_some_and(|before| before.is_owner));
    let now = state.clock.now_us();
    let mut tx = state.db.begin().await?;
    if !state.organizations.lock(&mut tx, organization.id()).await? {
        return Err(RepoError::OrganizationNotFound);
    }
    if apply(state, &mut tx, organization.id(), user.id, is_owner, now).await? {
        if !is_owner {
            lost_rights::end_waiting(state, &mut tx, permit, user.id, now).await?;
        }
        let target = Target::organization(organization.id(), &organization.name);
        let details = [("user", user.username), ("role", role.to_owned())];
        change::record(&mut tx, permit, Action::MemberSet, target, &details, now).await?;
    }
    change::commit(tx, key, SetMembershipResponse {}, now).await
}

/// Makes the user a member or an owner. Returns `false` if it has that role already.
async fn apply(
    state: &AppState,
    tx: &mut Tx,
    organization: UserId,
    user: UserId,
    is_owner: bool,
    now_us: i64,
) -> Result<bool, RepoError> {
    let organizations = &state.organizations;
    let before = organizations.membership_in(tx, organization, user).await?;
    if before.is_some_and(|before| before.is_owner == is_owner) {
        return Ok(false);
    }
    organizations.join(tx, organization, user, now_us).await?;
    match (is_owner, before) {
        (true, _) => organizations.add_owner(tx, organization, user, now_us).await?,
        (false, Some(_)) => organizations.remove_owner(tx, organization, user).await?,
        (false, None) => {}
    }
    Ok(true)
}
