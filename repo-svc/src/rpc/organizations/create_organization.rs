use ferrite_kit::idempotency::{IdempotencyKey, once};
use ferrite_proto::repo::{CreateOrganizationRequest, CreateOrganizationResponse};
use tonic::Request;

use super::super::lookup::Owner;
use super::super::{change, encode};
use crate::error::RepoError;
use crate::model::CheckedOrganization;
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::{Action, Target};

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<CreateOrganizationRequest>,
) -> Result<CreateOrganizationResponse, RepoError> {
    let key = IdempotencyKey::of(&request, permit.user()?.0, "CreateOrganization")?;
    once(&state.db, key.as_ref(), create(state, &request.into_inner(), &permit, key.as_ref())).await
}

async fn create(
    state: &AppState,
    request: &CreateOrganizationRequest,
    permit: &Permit,
    key: Option<&IdempotencyKey>,
) -> Result<CreateOrganizationResponse, RepoError> {
    let owner = Owner::user(state, permit, &request.owner).await?;
    let new = CheckedOrganization::check(request)?;
    state.creation_limit.count(permit.identity()?).await?;
    let now = state.clock.now_us();
    let mut tx = state.db.begin().await?;
    let made = state.organizations.insert(&mut tx, &new, owner.id, permit.viewer().user(), now).await?;
    let target = Target::organization(made.id(), &made.name);
    change::record(&mut tx, permit, Action::OrganizationCreate, target, &[("owner", owner.name)], now).await?;
    change::commit(tx, key, CreateOrganizationResponse { organization: Some(encode::organization(made)) }, now).await
}
