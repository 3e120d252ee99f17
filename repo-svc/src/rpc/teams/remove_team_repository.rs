use ferrite_kit::idempotency::{IdempotencyKey, once};
use ferrite_proto::id::TeamId;
use ferrite_proto::repo::{RemoveTeamRepositoryRequest, RemoveTeamRepositoryResponse};
use tonic::Request;

use super::super::change;
use super::{lock, repository, target};
use crate::RepoError;
use crate::access::Permit;
use crate::core::Core;
use crate::store::Action;

pub(super) async fn handle(
    core: &Core,
    permit: Permit,
    request: Request<RemoveTeamRepositoryRequest>,
) -> Result<RemoveTeamRepositoryResponse, RepoError> {
    let key = IdempotencyKey::of(&request, permit.user()?.0, "RemoveTeamRepository")?;
    once(&core.db, key.as_ref(), remove(core, &request.into_inner(), &permit, key.as_ref())).await
}

async fn remove(
    core: &Core,
    request: &RemoveTeamRepositoryRequest,
    permit: &Permit,
    key: Option<&IdempotencyKey>,
) -> Result<RemoveTeamRepositoryResponse, RepoError> {
    let found = permit.team(core, TeamId(request.team_id)).await?;
    let (id, name) = repository(core, &found, &request.repository).await?;
    if found.is_owners() {
        return Err(RepoError::OwnersTeam);
    }
    let now = core.clock.now_us();
    let mut tx = core.db.begin().await?;
    let team = lock(core, &mut tx, &found).await?;
    if core.teams.remove_repository(&mut tx, team.id(), id).await? {
        change::record(&mut tx, permit, Action::TeamRepositoryRemove, target(&team), &[("repository", name)], now)
            .await?;
    }
    change::commit(tx, key, RemoveTeamRepositoryResponse {}, now).await
}
