use ferrite_kit::Secret;
use ferrite_kit::auth::{AuthError, Caller};
use ferrite_kit::idempotency::{IdempotencyKey, once};
use ferrite_proto::repo::{CreateUserRequest, CreateUserResponse};
use tonic::Request;

use super::encode;
use crate::RepoError;
use crate::access::Viewer;
use crate::core::Core;
use crate::model::{CheckedUser, NewUser};

pub(super) async fn handle(
    core: &Core,
    mut request: Request<CreateUserRequest>,
) -> Result<CreateUserResponse, RepoError> {
    let caller = Caller::of(&request);
    let administrator = caller.require_user()?;
    if !administrator.is_admin {
        return Err(AuthError::AdminRequired.into());
    }
    // Taken out before the request is hashed: no fast hash of a password may be kept.
    let password = Secret::new(std::mem::take(&mut request.get_mut().password));
    let key = IdempotencyKey::of(&request, administrator.user_id, "CreateUser")?;
    let request = request.into_inner();
    let new = NewUser {
        username: request.username,
        email: request.email,
        password,
        full_name: request.full_name,
        is_admin: request.is_admin,
    };
    once(&core.db, key.as_ref(), create(core, &new, Viewer::of(Some(administrator)), key.as_ref())).await
}

async fn create(
    core: &Core,
    new: &NewUser,
    viewer: Viewer,
    key: Option<&IdempotencyKey>,
) -> Result<CreateUserResponse, RepoError> {
    let checked = CheckedUser::check(new)?;
    let hash = core.passwords.hash(&checked.password).await?;
    let now = core.clock.now_us();
    let mut tx = core.db.begin().await?;
    let user = core.accounts.insert(&mut tx, &checked, &hash, now).await?;
    let answer = CreateUserResponse { user: Some(encode::user(user, viewer)) };
    if let Some(key) = key {
        key.store(&mut tx, &answer, now).await?;
    }
    tx.commit().await?;
    Ok(answer)
}
