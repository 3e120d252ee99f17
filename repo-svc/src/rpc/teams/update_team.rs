use ferrite_kit::idempotency::{IdempotencyKey, once};
use ferrite_proto::id::TeamId;
use ferrite_proto::repo::{UpdateTeamRequest, UpdateTeamResponse};
use tonic::Request;

use super::super::change;
use super::{encode, lock, target, word};
use crate::RepoError;
use crate::access::Permit;
use crate::core::Core;
use crate::model::TeamChange;
use crate::store::Action;

pub(super) async fn handle(
    core: &Core,
    permit: Permit,
    request: Request<UpdateTeamRequest>,
) -> Result<UpdateTeamResponse, RepoError> {
    let key = IdempotencyKey::of(&request, permit.user()?.0, "UpdateTeam")?;
    once(&core.db, key.as_ref(), update(core, &request.into_inner(), &permit, key.as_ref())).await
}

async fn update(
    core: &Core,
    request: &UpdateTeamRequest,
    permit: &Permit,
    key: Option<&IdempotencyKey>,
) -> Result<UpdateTeamResponse, RepoError> {
    let found = permit.team(core, TeamId(request.team_id)).await?;
    let wanted = TeamChange::check(request)?;
    let now = core.clock.now_us();
    let mut tx = core.db.begin().await?;
    let old = lock(core, &mut tx, &found).await?;
    let fields = core.teams.update(&mut tx, &old, &wanted).await?;
    let new = core.teams.reload(&mut tx, old.id(), None).await?.ok_or(RepoError::TeamNotFound)?;
    if !fields.is_empty() {
        // Under the name that it was known by; another one is in the details.
        let details = [("fields", fields.join(",")), ("name", new.name.clone()), ("permission", word(&new))];
        change::record(&mut tx, permit, Action::TeamUpdate, target(&old), &details, now).await?;
    }
    change::commit(tx, key, UpdateTeamResponse { team: Some(encode(new)) }, now).await
}
