use ferrite_proto::repo::{DeleteAccessTokenRequest, DeleteAccessTokenResponse};
use tonic::Request;

use super::lookup;
use crate::RepoError;
use crate::core::Core;
use crate::credentials::Origin;

pub(super) async fn handle(
    core: &Core,
    request: Request<DeleteAccessTokenRequest>,
) -> Result<DeleteAccessTokenResponse, RepoError> {
    let origin = Origin::of(&request);
    let request = request.into_inner();
    let user = lookup::token_owner(core, request.credential, &origin, &request.username).await?;
    let is_possible = !request.name.is_empty() && !request.name.contains('\0');
    let deleted = if is_possible { core.tokens.delete(user, &request.name).await? } else { None };
    let hash = deleted.ok_or(RepoError::TokenNotFound)?;
    // After the row is gone: whoever asks from now on is told the truth, and what was told before is forgotten here.
    if let Some(cache) = &core.cache {
        cache.revoke(&[hash]).await;
    }
    Ok(DeleteAccessTokenResponse {})
}
