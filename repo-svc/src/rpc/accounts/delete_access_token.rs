use std::sync::Arc;

use ferrite_kit::id_or_name::IdOrName;
use ferrite_proto::repo::{DeleteAccessTokenRequest, DeleteAccessTokenResponse};
use tonic::Request;

use super::super::lookup::{self, TokenOwner};
use super::super::revoke::revoke_cached;
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::{Action, Entry, Target, append};

pub(super) async fn handle(
    state: &Arc<AppState>,
    permit: Permit,
    request: Request<DeleteAccessTokenRequest>,
) -> Result<DeleteAccessTokenResponse, RepoError> {
    let request = request.into_inner();
    let owner = lookup::token_owner(state, request.credential, permit.client_address(), &request.username).await?;
    if request.name.is_empty() || request.name.contains('\0') {
        return Err(RepoError::TokenNotFound);
    }
    let (shared, name) = (Arc::clone(state), request.name);
    // A task of its own, because a request that is cancelled after its commit must still revoke the cached tokens.
    let task =
        state.life.spawn_for_request("delete token", async move { delete(&shared, &permit, &owner, &name).await });
    task.await.unwrap_or(Err(RepoError::Interrupted))
}

async fn delete(
    state: &AppState,
    permit: &Permit,
    owner: &TokenOwner,
    name: &str,
) -> Result<DeleteAccessTokenResponse, RepoError> {
    let mut tx = state.db.begin().await?;
    let deleted =
        state.tokens.delete(&mut tx, owner.id(), IdOrName::new(name)).await?.ok_or(RepoError::TokenNotFound)?;
    let entry = Entry {
        actor: &permit.actor_as(owner.identity()),
        action: Action::TokenDelete,
        target: Target::user(owner.id(), &owner.identity().username),
        details: &[("name", deleted.name), ("keys", deleted.key_count.to_string())],
    };
    append(&mut tx, entry, state.clock.now_us()).await?;
    tx.commit().await?;
    revoke_cached(state.cache.as_ref(), &[deleted.hash]).await;
    Ok(DeleteAccessTokenResponse {})
}
