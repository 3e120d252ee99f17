use std::sync::Arc;

use ferrite_kit::idempotency::{IdempotencyKey, once};
use ferrite_proto::repo::{DeleteUserRequest, DeleteUserResponse};
use tonic::Request;

use super::super::revoke::revoke_cached;
use super::super::{change, lost_rights};
use crate::error::RepoError;
use crate::model::lookup_key;
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::{Action, Target, delete_user, lock_administrators, lock_user, token_hashes};

pub(super) async fn handle(
    state: &Arc<AppState>,
    permit: Permit,
    request: Request<DeleteUserRequest>,
) -> Result<DeleteUserResponse, RepoError> {
    let key = IdempotencyKey::of(&request, permit.user()?.0, "DeleteUser")?;
    let (username, shared) = (request.into_inner().username, Arc::clone(state));
    // A task of its own, because a request that is cancelled after its commit must still revoke the cached tokens.
    let task = state.life.spawn_for_request("delete user", async move {
        once(&shared.db, key.as_ref(), delete(&shared, &username, &permit, key.as_ref())).await
    });
    task.await.unwrap_or(Err(RepoError::Interrupted))
}

async fn delete(
    state: &AppState,
    username: &str,
    permit: &Permit,
    key: Option<&IdempotencyKey>,
) -> Result<DeleteUserResponse, RepoError> {
    let name_key = lookup_key(username).ok_or(RepoError::UserNotFound)?;
    let now = state.clock.now_us();
    let mut tx = state.db.begin().await?;
    lock_administrators(&mut tx).await?;
    let user = lock_user(&mut tx, &name_key).await?.ok_or(RepoError::UserNotFound)?;
    let hashes = token_hashes(&mut tx, user.id()).await?;
    lost_rights::end_transfers(state, &mut tx, permit, user.id(), now).await?;
    delete_user(&mut tx, &user).await?;
    change::record(&mut tx, permit, Action::UserDelete, Target::user(user.id(), &user.name), &[], now).await?;
    let answer = change::commit(tx, key, DeleteUserResponse {}, now).await?;
    revoke_cached(state.cache.as_ref(), &hashes).await;
    tracing::info!(user.id = user.id, "deleted user {}", user.id);
    Ok(answer)
}
