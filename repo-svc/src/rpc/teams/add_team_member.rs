use ferrite_kit::idempotency::{IdempotencyKey, once};
use ferrite_proto::id::TeamId;
use ferrite_proto::repo::{AddTeamMemberRequest, AddTeamMemberResponse};
use tonic::Request;

use super::super::{change, lookup};
use super::{lock, target};
use crate::RepoError;
use crate::access::Permit;
use crate::core::Core;
use crate::store::{Action, Target};

pub(super) async fn handle(
    core: &Core,
    permit: Permit,
    request: Request<AddTeamMemberRequest>,
) -> Result<AddTeamMemberResponse, RepoError> {
    let key = IdempotencyKey::of(&request, permit.user()?.0, "AddTeamMember")?;
    once(&core.db, key.as_ref(), add(core, &request.into_inner(), &permit, key.as_ref())).await
}

async fn add(
    core: &Core,
    request: &AddTeamMemberRequest,
    permit: &Permit,
    key: Option<&IdempotencyKey>,
) -> Result<AddTeamMemberResponse, RepoError> {
    let found = permit.team(core, TeamId(request.team_id)).await?;
    let user = lookup::user(core, &request.username).await?;
    let now = core.clock.now_us();
    let mut tx = core.db.begin().await?;
    let team = lock(core, &mut tx, &found).await?;
    if core.organizations.join(&mut tx, team.organization_id(), user.id, now).await? {
        let role = if team.is_owners() { "admin" } else { "member" };
        let details = [("user", user.username.clone()), ("role", role.to_owned())];
        let target = Target::organization(team.organization_id(), &team.organization);
        change::record(&mut tx, permit, Action::MemberSet, target, &details, now).await?;
    }
    if core.teams.add_member(&mut tx, team.id(), user.id, now).await? {
        let details = [("user", user.username)];
        change::record(&mut tx, permit, Action::TeamMemberAdd, target(&team), &details, now).await?;
    }
    change::commit(tx, key, AddTeamMemberResponse {}, now).await
}
