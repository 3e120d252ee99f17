use ferrite_kit::idempotency::IdempotencyKey;
use ferrite_proto::repo::{CreateTeamRequest, CreateTeamResponse};
use tonic::Request;

use super::super::{change, encode, lookup, repeat};
use crate::access::Capacity;
use crate::error::RepoError;
use crate::model::CheckedTeam;
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::{Action, Target};

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<CreateTeamRequest>,
) -> Result<CreateTeamResponse, RepoError> {
    let key = IdempotencyKey::of(&request, permit.user()?.0, "CreateTeam")?;
    let access = repeat::organization(state, &permit, request.get_ref().organization.clone());
    repeat::once(&state.db, key.as_ref(), access, create(state, &request.into_inner(), &permit, key.as_ref())).await
}

async fn create(
    state: &AppState,
    request: &CreateTeamRequest,
    permit: &Permit,
    key: Option<&IdempotencyKey>,
) -> Result<CreateTeamResponse, RepoError> {
    let id = match permit.capacity() {
        Capacity::Administrator => lookup::organization(state, &request.organization, permit.viewer()).await?.id(),
        Capacity::Own | Capacity::Organization => {
            permit.organization(&state.organizations, &request.organization).await?.id()
        }
    };
    let new = CheckedTeam::check(request)?;
    state.creation_limit.count(permit.identity()?).await?;
    let now = state.clock.now_us();
    let mut tx = state.db.begin().await?;
    if !state.organizations.lock(&mut tx, id).await? {
        return Err(RepoError::OrganizationNotFound);
    }
    let team = state.teams.insert(&mut tx, id, &new, permit.viewer().user(), now).await?;
    let details = [("permission", team.permission().to_string())];
    change::record(&mut tx, permit, Action::TeamCreate, Target::team(&team), &details, now).await?;
    change::commit(tx, key, CreateTeamResponse { team: Some(encode::team(team)) }, now).await
}
