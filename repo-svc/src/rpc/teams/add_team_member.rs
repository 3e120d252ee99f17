use ferrite_kit::idempotency::IdempotencyKey;
use ferrite_proto::id::TeamId;
use ferrite_proto::repo::{AddTeamMemberRequest, AddTeamMemberResponse};
use tonic::Request;

use super::super::{change, lookup, repeat};
use super::lookup::lock;
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::{Action, Target};

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<AddTeamMemberRequest>,
) -> Result<AddTeamMemberResponse, RepoError> {
    let key = IdempotencyKey::of(&request, permit.user()?.0, "AddTeamMember")?;
    let access = repeat::team(state, &permit, request.get_ref().team_id);
    repeat::once(&state.db, key.as_ref(), access, add(state, &request.into_inner(), &permit, key.as_ref())).await
}

async fn add(
    state: &AppState,
    request: &AddTeamMemberRequest,
    permit: &Permit,
    key: Option<&IdempotencyKey>,
) -> Result<AddTeamMemberResponse, RepoError> {
    let found = permit.team(&state.teams, TeamId(request.team_id)).await?;
    let user = lookup::user(state, &request.username).await?;
    let now = state.clock.now_us();
    let mut tx = state.db.begin().await?;
    let team = lock(state, &mut tx, &found).await?;
    if state.organizations.join(&mut tx, team.organization_id(), user.id, now).await? {
        let role = if team.is_owners() { "admin" } else { "member" };
        let details = [("user", user.username.clone()), ("role", role.to_owned())];
        let target = Target::organization(team.organization_id(), &team.organization);
        change::record(&mut tx, permit, Action::MemberSet, target, &details, now).await?;
    }
    if state.teams.add_member(&mut tx, team.id(), user.id, now).await? {
        let details = [("user", user.username)];
        change::record(&mut tx, permit, Action::TeamMemberAdd, Target::team(&team), &details, now).await?;
    }
    change::commit(tx, key, AddTeamMemberResponse {}, now).await
}
