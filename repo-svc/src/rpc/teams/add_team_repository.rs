use ferrite_kit::idempotency::IdempotencyKey;
use ferrite_proto::id::TeamId;
use ferrite_proto::repo::{AddTeamRepositoryRequest, AddTeamRepositoryResponse};
use tonic::Request;

use super::super::{change, repeat};
use super::lookup::{lock, repository};
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::{Action, Target};

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<AddTeamRepositoryRequest>,
) -> Result<AddTeamRepositoryResponse, RepoError> {
    let key = IdempotencyKey::of(&request, permit.user()?.0, "AddTeamRepository")?;
    let access = repeat::team(state, &permit, request.get_ref().team_id);
    repeat::once(&state.db, key.as_ref(), access, add(state, &request.into_inner(), &permit, key.as_ref())).await
}

async fn add(
    state: &AppState,
    request: &AddTeamRepositoryRequest,
    permit: &Permit,
    key: Option<&IdempotencyKey>,
) -> Result<AddTeamRepositoryResponse, RepoError> {
    let found = permit.team(&state.teams, TeamId(request.team_id)).await?;
    let (id, name) = repository(state, &found, &request.repository).await?;
    let now = state.clock.now_us();
    let mut tx = state.db.begin().await?;
    let team = lock(state, &mut tx, &found).await?;
    if team.is_owners() {
        // The team of owners holds every repository of its organization.
        return change::commit(tx, key, AddTeamRepositoryResponse {}, now).await;
    }
    if state.teams.add_repository(&mut tx, team.id(), id, now).await? {
        change::record(&mut tx, permit, Action::TeamRepositoryAdd, Target::team(&team), &[("repository", name)], now)
            .await?;
    }
    change::commit(tx, key, AddTeamRepositoryResponse {}, now).await
}
