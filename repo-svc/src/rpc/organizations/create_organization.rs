use ferrite_kit::auth::AuthError;
use ferrite_kit::idempotency::{IdempotencyKey, once};
use ferrite_proto::id::UserId;
use ferrite_proto::repo::{CreateOrganizationRequest, CreateOrganizationResponse};
use tonic::Request;

use super::super::{change, encode, lookup};
use crate::access::Capacity;
use crate::error::RepoError;
use crate::model::CheckedOrganization;
use crate::rpc::permit::{ActsAs, Permit};
use crate::state::AppState;
use crate::store::{Action, Target};

impl ActsAs for CreateOrganizationRequest {
    fn capacity(&self) -> Capacity {
        if self.as_administrator { Capacity::Administrator } else { Capacity::Own }
    }
}

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
    let (owner, owner_name) = owner(state, permit, &request.owner).await?;
    let new = CheckedOrganization::check(request)?;
    state.creation_limit.count(permit.identity()?).await?;
    let now = state.clock.now_us();
    let mut tx = state.db.begin().await?;
    let made = state.organizations.insert(&mut tx, &new, owner, permit.viewer().user(), now).await?;
    let target = Target::organization(made.id(), &made.name);
    change::record(&mut tx, permit, Action::OrganizationCreate, target, &[("owner", owner_name)], now).await?;
    change::commit(tx, key, CreateOrganizationResponse { organization: Some(encode::organization(made)) }, now).await
}

/// Returns the first owner. Only administrators of the site create organizations for other users.
async fn owner(state: &AppState, permit: &Permit, name: &str) -> Result<(UserId, String), RepoError> {
    let caller = permit.identity()?;
    if name.is_empty() || name.eq_ignore_ascii_case(&caller.username) {
        return Ok((UserId(caller.user_id), caller.username.clone()));
    }
    if permit.capacity() != Capacity::Administrator {
        return Err(AuthError::AdminRequired.into());
    }
    let user = lookup::user(state, name).await?;
    Ok((user.id, user.username))
}
