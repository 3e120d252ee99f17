use ferrite_kit::idempotency::{IdempotencyKey, once};
use ferrite_proto::id::TeamId;
use ferrite_proto::repo::{RemoveTeamMemberRequest, RemoveTeamMemberResponse};
use tonic::Request;

use super::super::{change, lookup};
use super::{lock, target};
use crate::RepoError;
use crate::access::Permit;
use crate::core::Core;
use crate::store::Action;

pub(super) async fn handle(
    core: &Core,
    permit: Permit,
    request: Request<RemoveTeamMemberRequest>,
) -> Result<RemoveTeamMemberResponse, RepoError> {
    let key = IdempotencyKey::of(&request, permit.user()?.0, "RemoveTeamMember")?;
    once(&core.db, key.as_ref(), remove(core, &request.into_inner(), &permit, key.as_ref())).await
}

async fn remove(
    core: &Core,
    request: &RemoveTeamMemberRequest,
    permit: &Permit,
    key: Option<&IdempotencyKey>,
) -> Result<RemoveTeamMemberResponse, RepoError> {
    let found = permit.team(core, TeamId(request.team_id)).await?;
    let user = lookup::user(core, &request.username).await?;
    let now = core.clock.now_us();
    let mut tx = core.db.begin().await?;
    let team = lock(core, &mut tx, &found).await?;
    if core.teams.has_member(&mut tx, team.id(), user.id).await? {
        if team.is_owners() {
            core.organizations.keep_an_owner(&mut tx, team.organization_id(), user.id).await?;
        }
        core.teams.remove_member(&mut tx, team.id(), user.id).await?;
        let details = [("user", user.username)];
        change::record(&mut tx, permit, Action::TeamMemberRemove, target(&team), &details, now).await?;
    }
    change::commit(tx, key, RemoveTeamMemberResponse {}, now).await
}
