use ferrite_proto::repo::{DeleteAccessTokenRequest, DeleteAccessTokenResponse};
use tonic::Request;

use super::super::lookup;
use crate::RepoError;
use crate::access::Permit;
use crate::core::Core;
use crate::store::{Action, Entry, Target, append};

pub(super) async fn handle(
    core: &Core,
    permit: Permit,
    request: Request<DeleteAccessTokenRequest>,
) -> Result<DeleteAccessTokenResponse, RepoError> {
    let request = request.into_inner();
    let owner = lookup::token_owner(core, request.credential, permit.origin(), &request.username).await?;
    if request.name.is_empty() || request.name.contains('\0') {
        return Err(RepoError::TokenNotFound);
    }
    let mut tx = core.db.begin().await?;
    let deleted = core.tokens.delete(&mut tx, owner.id(), &request.name).await?.ok_or(RepoError::TokenNotFound)?;
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
