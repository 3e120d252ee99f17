use ferrite_kit::idempotency::{IdempotencyKey, once};
use ferrite_proto::id::TeamId;
use ferrite_proto::repo::{DeleteTeamRequest, DeleteTeamResponse};
use tonic::Request;

use super::super::change;
use super::lookup::lock;
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::{Action, Target};

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<DeleteTeamRequest>,
) -> Result<DeleteTeamResponse, RepoError> {
    let key = IdempotencyKey::of(&request, permit.user()?.0, "DeleteTeam")?;
    once(&state.db, key.as_ref(), delete(state, &request.into_inner(), &permit, key.as_ref())).await
}

async fn delete(
    state: &AppState,
    request: &DeleteTeamRequest,
    permit: &Permit,
    key: Option<&IdempotencyKey>,
) -> Result<DeleteTeamResponse, RepoError> {
    let found = permit.team(&state.teams, TeamId(request.team_id)).await?;
    let now = state.clock.now_us();
    let mut tx = state.db.begin().await?;
    let team = lock(state, &mut tx, &found).await?;
    state.teams.delete(&mut tx, &team).await?;
    change::record(&mut tx, permit, Action::TeamDelete, Target::team(&team), &[], now).await?;
    change::commit(tx, key, DeleteTeamResponse {}, now).await
}
