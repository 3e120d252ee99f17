use ferrite_kit::auth::AuthError;
use ferrite_kit::idempotency::IdempotencyKey;
use ferrite_proto::repo::{UpdateReleaseAssetRequest, UpdateReleaseAssetResponse};
use tonic::Request;

use super::encode;
use crate::error::RepoError;
use crate::model::AssetName;
use crate::rpc::permit::Permit;
use crate::rpc::{change, repeat};
use crate::state::AppState;
use crate::store::Asset;

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<UpdateReleaseAssetRequest>,
) -> Result<UpdateReleaseAssetResponse, RepoError> {
    let key = IdempotencyKey::of(&request, permit.user()?.0, "UpdateReleaseAsset")?;
    let access = repeat::repository(state, &permit, request.get_ref().repository.clone());
    repeat::once(&state.db, key.as_ref(), access, update(state, request.into_inner(), &permit, key.as_ref())).await
}

async fn update(
    state: &AppState,
    mut request: UpdateReleaseAssetRequest,
    permit: &Permit,
    key: Option<&IdempotencyKey>,
) -> Result<UpdateReleaseAssetResponse, RepoError> {
    let repository = permit.repository(&state.repositories, request.repository.take()).await?;
    let name = request.name.as_deref().map(AssetName::parse).transpose()?;
    let mut tx = state.db.begin().await?;
    state.repositories.lock(&mut tx, repository.id()).await?.ok_or(AuthError::RepositoryNotFound)?;
    let release = state.releases.find_locked(&mut tx, repository.id(), request.release_id).await?;
    let release = release.ok_or(RepoError::ReleaseNotFound)?;
    let found = state.releases.find_asset_locked(&mut tx, &release, request.asset_id).await?;
    let mut asset = found.ok_or(RepoError::AssetNotFound)?;
    if let Some(name) = name {
        state.releases.rename_asset(&mut tx, asset.id, &name).await?;
        asset = Asset { name: name.as_str().to_owned(), ..asset };
    }
    let answer = UpdateReleaseAssetResponse { asset: Some(encode::asset(asset, &release)) };
    change::commit(tx, key, answer, state.clock.now_us()).await
}
