use ferrite_kit::auth::AuthError;
use ferrite_kit::idempotency::IdempotencyKey;
use ferrite_proto::repo::{DeleteReleaseAssetRequest, DeleteReleaseAssetResponse};
use tonic::Request;

use super::storage;
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::rpc::{change, repeat};
use crate::state::AppState;

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<DeleteReleaseAssetRequest>,
) -> Result<DeleteReleaseAssetResponse, RepoError> {
    let key = IdempotencyKey::of(&request, permit.user()?.0, "DeleteReleaseAsset")?;
    let access = repeat::repository(state, &permit, request.get_ref().repository.clone());
    repeat::once(&state.db, key.as_ref(), access, delete(state, request.into_inner(), &permit, key.as_ref())).await
}

async fn delete(
    state: &AppState,
    request: DeleteReleaseAssetRequest,
    permit: &Permit,
    key: Option<&IdempotencyKey>,
) -> Result<DeleteReleaseAssetResponse, RepoError> {
    let repository = permit.repository(&state.repositories, request.repository).await?;
    let mut tx = state.db.begin().await?;
    let owner = state.repositories.lock(&mut tx, repository.id()).await?.ok_or(AuthError::RepositoryNotFound)?;
    let release = state.releases.find_locked(&mut tx, repository.id(), request.release_id).await?;
    let release = release.ok_or(RepoError::ReleaseNotFound)?;
    let asset = state.releases.find_asset_locked(&mut tx, &release, request.asset_id).await?;
    let asset = asset.ok_or(RepoError::AssetNotFound)?;
    state.releases.delete_asset(&mut tx, &release, &asset).await?;
    state.quotas.release(&mut tx, owner, asset.size_bytes).await?;
    let answer = change::commit(tx, key, DeleteReleaseAssetResponse {}, state.clock.now_us()).await?;
    storage::remove_files(state, repository.id(), &repository.store, vec![asset.file_id]).await;
    Ok(answer)
}
