//! `BeginAssetUpload`: the checks that come before the bytes of a file, and the reservation of its file on the store.

use ferrite_kit::idempotency::{IdempotencyError, IdempotencyKey};
use ferrite_proto::id::RepositoryId;
use ferrite_proto::repo::{BeginAssetUploadRequest, BeginAssetUploadResponse, CreateReleaseAssetResponse};
use tonic::Request;

use crate::error::RepoError;
use crate::model::{AssetName, Violations};
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::ReleaseKey;

pub(super) async fn handle(
    state: &AppState,
    _: Permit,
    request: Request<BeginAssetUploadRequest>,
) -> Result<BeginAssetUploadResponse, RepoError> {
    let is_repeated = is_repeated(state, &request).await?;
    let request = request.into_inner();
    let mut violations = Violations::default();
    let Some(name) = violations.take(AssetName::parse(&request.name)) else { return Err(violations.into_error()) };
    let repository = RepositoryId(request.repository_id);
    // The user may write to the repository, so drafts are no secret.
    let release = state.releases.find(repository, &ReleaseKey::Id(request.release_id)).await?;
    let release = release.ok_or(RepoError::ReleaseNotFound)?;
    let file_id = hex::encode(rand::random::<[u8; 16]>());
    state.releases.reserve_file(&release, (&name, is_repeated), &file_id, state.clock.now_us()).await?;
    Ok(BeginAssetUploadResponse { file_id })
}

/// Returns whether the idempotency key was used by a `CreateReleaseAsset` of the same user. That call finds out whether it is repeated,
/// for which it needs the size and the hash of the file.
async fn is_repeated(state: &AppState, request: &Request<BeginAssetUploadRequest>) -> Result<bool, RepoError> {
    let Some(key) = IdempotencyKey::of(request, request.get_ref().user_id, "CreateReleaseAsset")? else {
        return Ok(false);
    };
    match key.replay::<CreateReleaseAssetResponse>(&state.db).await {
        Ok(stored) => Ok(stored.is_some()),
        Err(IdempotencyError::Reused) => Ok(true),
        Err(error) => Err(error.into()),
    }
}
