//! `BeginAssetUpload`: the checks that come before the bytes of a file, and the reservation of its file on the store.

use ferrite_kit::auth::AuthError;
use ferrite_kit::idempotency::{IdempotencyError, IdempotencyKey};
use ferrite_proto::id::{RepositoryId, UserId};
use ferrite_proto::repo::{BeginAssetUploadRequest, BeginAssetUploadResponse, ByteQuota, CreateReleaseAssetResponse};
use tonic::Request;

use crate::error::RepoError;
use crate::model::AssetName;
use crate::rpc::permit::Permit;
use crate::rpc::{encode, writer};
use crate::state::AppState;
use crate::store::ReleaseKey;

pub(super) async fn handle(
    state: &AppState,
    _: Permit,
    request: Request<BeginAssetUploadRequest>,
) -> Result<BeginAssetUploadResponse, RepoError> {
    let is_repeated = is_repeated(state, &request).await?;
    let request = request.into_inner();
    // The call is one of the gateway, for this user.
    let user = state.accounts.find_active(UserId(request.user_id)).await?.ok_or(AuthError::BadCredentials)?;
    writer::set_user(state, user.id, user.is_admin).await?;
    let name = AssetName::parse(&request.name)?;
    let repository = RepositoryId(request.repository_id);
    // The user may write to the repository, so drafts are no secret.
    let release = state.releases.find(repository, &ReleaseKey::Id(request.release_id)).await?;
    let release = release.ok_or(RepoError::ReleaseNotFound)?;
    // A repeated upload adds nothing: its bytes are removed again.
    let quota = if is_repeated { None } else { check_quota(state, repository).await? };
    let file_id = hex::encode(rand::random::<[u8; 16]>());
    state.releases.reserve_file(&release, (&name, is_repeated), &file_id, state.clock.now_us()).await?;
    Ok(BeginAssetUploadResponse { file_id, quota })
}

/// Returns the quota of the owner of a repository; `None` if it has none.
///
/// # Errors
/// [`RepoError::StorageQuota`] if it is used up, or those of the database.
async fn check_quota(state: &AppState, repository: RepositoryId) -> Result<Option<ByteQuota>, RepoError> {
    let (row, site) = (state.quotas.of_repository(repository).await?, state.quotas.site());
    row.check_bytes(site, 0)?;
    Ok(encode::byte_quota(row, site))
}

/// Returns whether the idempotency key was used by a `CreateReleaseAsset` of the same user and token. That call finds out whether it is repeated,
/// for which it needs the size and the hash of the file.
async fn is_repeated(state: &AppState, request: &Request<BeginAssetUploadRequest>) -> Result<bool, RepoError> {
    let BeginAssetUploadRequest { user_id, token_id, .. } = request.get_ref();
    let Some(key) = IdempotencyKey::of_token(request, *user_id, *token_id, "CreateReleaseAsset")? else {
        return Ok(false);
    };
    match key.replay::<CreateReleaseAssetResponse>(&state.db).await {
        Ok(stored) => Ok(stored.is_some()),
        Err(IdempotencyError::Reused) => Ok(true),
        Err(error) => Err(error.into()),
    }
}
