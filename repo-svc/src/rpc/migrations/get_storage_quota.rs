use ferrite_kit::auth::AuthError;
use ferrite_proto::id::RepositoryId;
use ferrite_proto::repo::{GetStorageQuotaRequest, GetStorageQuotaResponse};
use tonic::Request;

use crate::error::RepoError;
use crate::rpc::encode;
use crate::rpc::permit::Permit;
use crate::state::AppState;

pub(super) async fn handle(
    state: &AppState,
    _: Permit,
    request: Request<GetStorageQuotaRequest>,
) -> Result<GetStorageQuotaResponse, RepoError> {
    let id = RepositoryId(request.get_ref().repository_id);
    let owner = state.quotas.owner_of_stored(id).await?.ok_or(AuthError::RepositoryNotFound)?;
    let row = state.quotas.find(owner).await?;
    Ok(GetStorageQuotaResponse { quota: encode::byte_quota(row, state.quotas.site()) })
}
