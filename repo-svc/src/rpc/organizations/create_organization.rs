use ferrite_kit::auth::AuthError;
use ferrite_kit::idempotency::{IdempotencyKey, once};
use ferrite_proto::id::UserId;
use ferrite_proto::repo::{CreateOrganizationRequest, CreateOrganizationResponse};
use tonic::Request;

use super::super::{change, lookup};
use super::encode;
use crate::RepoError;
use crate::access::{Acting, Mode, Permit};
use crate::core::Core;
use crate::model::CheckedOrganization;
use crate::store::{Action, Target};

impl Mode for CreateOrganizationRequest {
    fn acting(&self) -> Acting {
        if self.as_administrator { Acting::AsAdministrator } else { Acting::Itself }
    }
}

pub(super) async fn handle(
    core: &Core,
    permit: Permit,
    request: Request<CreateOrganizationRequest>,
) -> Result<CreateOrganizationResponse, RepoError> {
    let key = IdempotencyKey::of(&request, permit.user()?.0, "CreateOrganization")?;
    once(&core.db, key.as_ref(), create(core, &request.into_inner(), &permit, key.as_ref())).await
}

async fn create(
    core: &Core,
    request: &CreateOrganizationRequest,
    permit: &Permit,
    key: Option<&IdempotencyKey>,
) -> Result<CreateOrganizationResponse, RepoError> {
    let (owner, owner_name) = owner(core, permit, &request.owner).await?;
    let new = CheckedOrganization::check(request)?;
    core.count_creation(permit.identity()?).await?;
    let now = core.clock.now_us();
    let mut tx = core.db.begin().await?;
    let made = core.organizations.insert(&mut tx, &new, owner, permit.viewer().user(), now).await?;
    let target = Target::organization(made.id(), &made.name);
    change::record(&mut tx, permit, Action::OrganizationCreate, target, &[("owner", owner_name)], now).await?;
    change::commit(tx, key, CreateOrganizationResponse { organization: Some(encode(made)) }, now).await
}

/// The first owner. Only administrators of the site make organizations for others.
async fn owner(core: &Core, permit: &Permit, name: &str) -> Result<(UserId, String), RepoError> {
    let caller = permit.identity()?;
    if name.is_empty() || name.eq_ignore_ascii_case(&caller.username) {
        return Ok((UserId(caller.user_id), caller.username.clone()));
    }
    if permit.acting() != Acting::AsAdministrator {
        return Err(AuthError::AdminRequired.into());
    }
    let user = lookup::user(core, name).await?;
    Ok((user.id, user.username))
}
