use ferrite_kit::idempotency::{IdempotencyKey, once};
use ferrite_proto::repo::{RemoveMemberRequest, RemoveMemberResponse};
use tonic::Request;

use super::super::change;
use crate::RepoError;
use crate::access::Permit;
use crate::core::Core;
use crate::model::lookup_key;
use crate::store::{Action, Standing, Target};

pub(super) async fn handle(
    core: &Core,
    permit: Permit,
    request: Request<RemoveMemberRequest>,
) -> Result<RemoveMemberResponse, RepoError> {
    let key = IdempotencyKey::of(&request, permit.user()?.0, "RemoveMember")?;
    once(&core.db, key.as_ref(), remove(core, &request.into_inner(), &permit, key.as_ref())).await
}

async fn remove(
    core: &Core,
    request: &RemoveMemberRequest,
    permit: &Permit,
    key: Option<&IdempotencyKey>,
) -> Result<RemoveMemberResponse, RepoError> {
    let organization = permit.organization(core, &request.organization).await?;
    let is_own = request.username.eq_ignore_ascii_case(&permit.identity()?.username);
    let is_owner = organization.standing() == Standing::Owner || permit.viewer().administers();
    if !is_own && !is_owner {
        return Err(RepoError::OrganizationOwnerRequired);
    }
    let name = lookup_key(&request.username).ok_or(RepoError::MemberNotFound)?;
    let user = core.accounts.find(&name).await?.ok_or(RepoError::MemberNotFound)?;
    let now = core.clock.now_us();
    let mut tx = core.db.begin().await?;
    core.organizations.lock(&mut tx, organization.id()).await?;
    if !core.organizations.leave(&mut tx, organization.id(), user.id).await? {
        return Err(RepoError::MemberNotFound);
    }
    let target = Target::organization(organization.id(), &organization.name);
    change::record(&mut tx, permit, Action::MemberRemove, target, &[("user", user.username)], now).await?;
    change::commit(tx, key, RemoveMemberResponse {}, now).await
}
