use ferrite_kit::idempotency::{IdempotencyKey, once};
use ferrite_proto::repo::{CreateTeamRequest, CreateTeamResponse};
use tonic::Request;

use super::super::{change, lookup};
use super::{encode, target, word};
use crate::RepoError;
use crate::access::{Acting, Permit};
use crate::core::Core;
use crate::model::CheckedTeam;
use crate::store::Action;

pub(super) async fn handle(
    core: &Core,
    permit: Permit,
    request: Request<CreateTeamRequest>,
) -> Result<CreateTeamResponse, RepoError> {
    let key = IdempotencyKey::of(&request, permit.user()?.0, "CreateTeam")?;
    once(&core.db, key.as_ref(), create(core, &request.into_inner(), &permit, key.as_ref())).await
}

async fn create(
    core: &Core,
    request: &CreateTeamRequest,
    permit: &Permit,
    key: Option<&IdempotencyKey>,
) -> Result<CreateTeamResponse, RepoError> {
    let id = match permit.acting() {
        Acting::AsAdministrator => lookup::organization(core, &request.organization, permit.viewer()).await?.id(),
        Acting::Itself | Acting::ForOrganization => permit.organization(core, &request.organization).await?.id(),
    };
    let new = CheckedTeam::check(request)?;
    core.count_creation(permit.identity()?).await?;
    let now = core.clock.now_us();
    let mut tx = core.db.begin().await?;
    if !core.organizations.lock(&mut tx, id).await? {
        return Err(RepoError::OrganizationNotFound);
    }
    let team = core.teams.insert(&mut tx, id, &new, permit.viewer().user(), now).await?;
    let details = [("permission", word(&team))];
    change::record(&mut tx, permit, Action::TeamCreate, target(&team), &details, now).await?;
    change::commit(tx, key, CreateTeamResponse { team: Some(encode(team)) }, now).await
}
