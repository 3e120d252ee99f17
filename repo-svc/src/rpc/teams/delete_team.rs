use ferrite_kit::idempotency::{IdempotencyKey, once};
use ferrite_proto::id::TeamId;
use ferrite_proto::repo::{DeleteTeamRequest, DeleteTeamResponse};
use tonic::Request;

use super::super::change;
use super::{lock, target};
use crate::RepoError;
use crate::access::Permit;
use crate::core::Core;
use crate::store::Action;

pub(super) async fn handle(
    core: &Core,
    permit: Permit,
    request: Request<DeleteTeamRequest>,
) -> Result<DeleteTeamResponse, RepoError> {
    let key = IdempotencyKey::of(&request, permit.user()?.0, "DeleteTeam")?;
    once(&core.db, key.as_ref(), delete(core, &request.into_inner(), &permit, key.as_ref())).await
}

async fn delete(
    core: &Core,
    request: &DeleteTeamRequest,
    permit: &Permit,
    key: Option<&IdempotencyKey>,
) -> Result<DeleteTeamResponse, RepoError> {
    let found = permit.team(core, TeamId(request.team_id)).await?;
    let now = core.clock.now_us();
    let mut tx = core.db.begin().await?;
    let team = lock(core, &mut tx, &found).await?;
    core.teams.delete(&mut tx, &team).await?;
    change::record(&mut tx, permit, Action::TeamDelete, target(&team), &[], now).await?;
    change::commit(tx, key, DeleteTeamResponse {}, now).await
}
