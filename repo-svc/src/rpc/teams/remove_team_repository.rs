use ferrite_kit::idempotency::IdempotencyKey;
use ferrite_proto::id::TeamId;
use ferrite_proto::repo::{RemoveTeamRepositoryRequest, RemoveTeamRepositoryResponse};
use tonic::Request;

use super::super::{change, repeat, writer};
use super::lookup::{lock, repository};
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::{Action, Target};

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<RemoveTeamRepositoryRequest>,
) -> Result<RemoveTeamRepositoryResponse, RepoError> {
    let key = IdempotencyKey::of(&request, permit.user()?.0, "RemoveTeamRepository")?;
    let access = repeat::team(state, &permit, request.get_ref().team_id);
    repeat::once(&state.db, key.as_ref(), access, remove(state, &request.into_inner(), &permit, key.as_ref())).await
}

async fn remove(
    state: &AppState,
    request: &RemoveTeamRepositoryRequest,
    permit: &Permit,
    key: Option<&IdempotencyKey>,
) -> Result<RemoveTeamRepositoryResponse, RepoError> {
    let found = permit.team(&state.teams, TeamId(request.team_id)).await?;
    let (id, name) = repository(state, &found, &request.repository).await?;
    if found.is_owners() {
        return Err(RepoError::OwnersTeam);
    }
    writer::never_refuse_if(state.teams.holds(found.id(), id).await?);
    let now = state.clock.now_us();
    let mut tx = state.db.begin().await?;
    let team = lock(state, &mut tx, &found).await?;
    if state.teams.remove_repository(&mut tx, team.id(), id).await? {
        change::record(
            &mut tx,
            permit,
            Action::TeamRepositoryRemove,
            Target::team(&team),
            &[("repository", name)],
            now,
        )
        .await?;
    }
    change::commit(tx, key, RemoveTeamRepositoryResponse {}, now).await
}
