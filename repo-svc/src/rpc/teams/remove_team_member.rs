use ferrite_kit::idempotency::IdempotencyKey;
use ferrite_proto::id::TeamId;
use ferrite_proto::repo::{RemoveTeamMemberRequest, RemoveTeamMemberResponse};
use tonic::Request;

use super::super::{change, lookup, lost_rights, repeat, writer};
use super::lookup::lock;
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::{Action, Target};

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<RemoveTeamMemberRequest>,
) -> Result<RemoveTeamMemberResponse, RepoError> {
    let key = IdempotencyKey::of(&request, permit.user()?.0, "RemoveTeamMember")?;
    let access = repeat::team(state, &permit, request.get_ref().team_id);
    repeat::once(&state.db, key.as_ref(), access, remove(state, &request.into_inner(), &permit, key.as_ref())).await
}

async fn remove(
    state: &AppState,
    request: &RemoveTeamMemberRequest,
    permit: &Permit,
    key: Option<&IdempotencyKey>,
) -> Result<RemoveTeamMemberResponse, RepoError> {
    let found = permit.team(&state.teams, TeamId(request.team_id)).await?;
    let user = lookup::user(state, &request.username).await?;
    writer::never_refuse_if(state.teams.is_member(found.id(), user.id).await?);
    let now = state.clock.now_us();
    let mut tx = state.db.begin().await?;
    let team = lock(state, &mut tx, &found).await?;
    if state.teams.has_member(&mut tx, team.id(), user.id).await? {
        if team.is_owners() {
            state.organizations.require_other_owner(&mut tx, team.organization_id(), user.id).await?;
        }
        state.teams.remove_member(&mut tx, team.id(), user.id).await?;
        lost_rights::end_waiting(state, &mut tx, permit, user.id, now).await?;
        let details = [("user", user.username)];
        change::record(&mut tx, permit, Action::TeamMemberRemove, Target::team(&team), &details, now).await?;
    }
    change::commit(tx, key, RemoveTeamMemberResponse {}, now).await
}
