use ferrite_kit::idempotency::IdempotencyKey;
use ferrite_proto::id::TeamId;
use ferrite_proto::repo::{UpdateTeamRequest, UpdateTeamResponse};
use tonic::Request;

use super::super::{change, encode, repeat};
use super::lookup::lock;
use crate::error::RepoError;
use crate::model::TeamChange;
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::{Action, Target};

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<UpdateTeamRequest>,
) -> Result<UpdateTeamResponse, RepoError> {
    let key = IdempotencyKey::of(&request, permit.user()?.0, "UpdateTeam")?;
    let access = repeat::team(state, &permit, request.get_ref().team_id);
    repeat::once(&state.db, key.as_ref(), access, update(state, &request.into_inner(), &permit, key.as_ref())).await
}

async fn update(
    state: &AppState,
    request: &UpdateTeamRequest,
    permit: &Permit,
    key: Option<&IdempotencyKey>,
) -> Result<UpdateTeamResponse, RepoError> {
    let found = permit.team(&state.teams, TeamId(request.team_id)).await?;
    let wanted = TeamChange::check(request)?;
    let now = state.clock.now_us();
    let mut tx = state.db.begin().await?;
    let old = lock(state, &mut tx, &found).await?;
    let fields = state.teams.update(&mut tx, &old, &wanted).await?;
    let new = state.teams.reload(&mut tx, old.id(), None).await?.ok_or(RepoError::TeamNotFound)?;
    if !fields.is_empty() {
        // The target has the old name, the details have the new one.
        let details =
            [("fields", fields.join(",")), ("name", new.name.clone()), ("permission", new.permission().to_string())];
        change::record(&mut tx, permit, Action::TeamUpdate, Target::team(&old), &details, now).await?;
    }
    change::commit(tx, key, UpdateTeamResponse { team: Some(encode::team(new)) }, now).await
}
