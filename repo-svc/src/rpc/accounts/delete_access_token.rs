use std::sync::Arc;

use ferrite_proto::repo::{DeleteAccessTokenRequest, DeleteAccessTokenResponse};
use tonic::Request;

use super::super::lookup::{self, TokenOwner};
use crate::RepoError;
use crate::access::Permit;
use crate::core::Core;
use crate::store::{Action, Entry, Target, append};

pub(super) async fn handle(
    core: &Arc<Core>,
    permit: Permit,
    request: Request<DeleteAccessTokenRequest>,
) -> Result<DeleteAccessTokenResponse, RepoError> {
    let request = request.into_inner();
    let owner = lookup::token_owner(core, request.credential, permit.origin(), &request.username).await?;
    if request.name.is_empty() || request.name.contains('\0') {
        return Err(RepoError::TokenNotFound);
    }
    let (shared, name) = (Arc::clone(core), request.name);
    // A task of its own: a caller that goes away must not leave what was revoked in the caches.
    let task = core.life.spawn("delete token", async move { delete(&shared, &permit, &owner, &name).await });
    task.await.unwrap_or(Err(RepoError::Interrupted))
}

async fn delete(
    core: &Core,
    permit: &Permit,
    owner: &TokenOwner,
    name: &str,
) -> Result<DeleteAccessTokenResponse, RepoError> {
    let mut tx = core.db.begin().await?;
    let deleted = core.tokens.delete(&mut tx, owner.id(), name).await?.ok_or(RepoError::TokenNotFound)?;
    let entry = Entry {
        actor: &permit.actor_as(owner.identity()),
        action: Action::TokenDelete,
        target: Target::user(owner.id(), &owner.identity().username),
        details: &[("name", deleted.name)],
    };
    append(&mut tx, entry, core.clock.now_us()).await?;
    tx.commit().await?;
    // After the row is gone: whoever asks from now on is told the truth, and what was told before is forgotten here.
    if let Some(cache) = &core.cache {
        cache.revoke(&[deleted.hash]).await;
    }
    Ok(DeleteAccessTokenResponse {})
}
