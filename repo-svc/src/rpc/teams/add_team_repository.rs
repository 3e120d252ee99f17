use ferrite_kit::idempotency::{IdempotencyKey, once};
use ferrite_proto::id::TeamId;
use ferrite_proto::repo::{AddTeamRepositoryRequest, AddTeamRepositoryResponse};
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
    request: Request<AddTeamRepositoryRequest>,
) -> Result<AddTeamRepositoryResponse, RepoError> {
    let key = IdempotencyKey::of(&request, permit.user()?.0, "AddTeamRepository")?;
    once(&core.db, key.as_ref(), add(core, &request.into_inner(), &permit, key.as_ref())).await
}

async fn add(
    core: &Core,
    request: &AddTeamRepositoryRequest,
    permit: &Permit,
    key: Option<&IdempotencyKey>,
) -> Result<AddTeamRepositoryResponse, RepoError> {
    let found = permit.team(core, TeamId(request.team_id)).await?;
    let (id, name) = repository(core, &found, &request.repository).await?;
    let now = core.clock.now_us();
    let mut tx = core.db.begin().await?;
    let team = lock(core, &mut tx, &found).await?;
    if team.is_owners() {
        // It holds every repository of its organization.
        return change::commit(tx, key, AddTeamRepositoryResponse {}, now).await;
    }
    if core.teams.add_repository(&mut tx, team.id(), id, now).await? {
        change::record(&mut tx, permit, Action::TeamRepositoryAdd, target(&team), &[("repository", name)], now).await?;
    }
    change::commit(tx, key, AddTeamRepositoryResponse {}, now).await
}
