use ferrite_kit::Secret;
use ferrite_kit::idempotency::{IdempotencyKey, once};
use ferrite_proto::repo::{CreateUserRequest, CreateUserResponse};
use tonic::Request;

use super::super::{change, encode};
use crate::error::RepoError;
use crate::model::{CheckedUser, NewUser};
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::{Action, Target};

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    mut request: Request<CreateUserRequest>,
) -> Result<CreateUserResponse, RepoError> {
    // Removed before the request is hashed for its idempotency key: a fast hash of a password must not be stored.
    let password = Secret::new(std::mem::take(&mut request.get_mut().password));
    let key = IdempotencyKey::of(&request, permit.user()?.0, "CreateUser")?;
    let request = request.into_inner();
    let new = NewUser {
        username: request.username,
        email: request.email,
        password,
        full_name: request.full_name,
        is_admin: request.is_admin,
    };
    once(&state.db, key.as_ref(), create(state, &new, &permit, key.as_ref())).await
}

async fn create(
    state: &AppState,
    new: &NewUser,
    permit: &Permit,
    key: Option<&IdempotencyKey>,
) -> Result<CreateUserResponse, RepoError> {
    let checked = CheckedUser::check(new)?;
    let hash = state.passwords.hash(&checked.password).await?;
    let now = state.clock.now_us();
    let mut tx = state.db.begin().await?;
    let user = state.accounts.insert(&mut tx, &checked, &hash, now).await?;
    let (target, details) = (Target::user(user.id, &user.username), [("admin", user.is_admin.to_string())]);
    change::record(&mut tx, permit, Action::UserCreate, target, &details, now).await?;
    let answer = CreateUserResponse { user: Some(encode::user(user, permit.viewer())) };
    change::commit(tx, key, answer, now).await
}
