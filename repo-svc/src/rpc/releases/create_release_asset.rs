//! `CreateReleaseAsset`: the entry of a file whose bytes are on the store.

use ferrite_kit::auth::AuthError;
use ferrite_kit::idempotency::{IdempotencyKey, once};
use ferrite_proto::repo::{CreateReleaseAssetRequest, CreateReleaseAssetResponse};
use tonic::Request;

use super::encode;
use crate::error::RepoError;
use crate::model::NewAsset;
use crate::rpc::change;
use crate::rpc::permit::Permit;
use crate::state::AppState;

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<CreateReleaseAssetRequest>,
) -> Result<CreateReleaseAssetResponse, RepoError> {
    let (metadata, extensions, request) = request.into_parts();
    // A repeated upload has another file on the store, of the same content. It stays reserved and is removed later.
    let content = CreateReleaseAssetRequest { file_id: String::new(), ..request.clone() };
    let content = Request::from_parts(metadata, extensions, content);
    let key = IdempotencyKey::of(&content, permit.user()?.0, "CreateReleaseAsset")?;
    once(&state.db, key.as_ref(), create(state, request, &permit, key.as_ref())).await
}

async fn create(
    state: &AppState,
    mut request: CreateReleaseAssetRequest,
    permit: &Permit,
    key: Option<&IdempotencyKey>,
) -> Result<CreateReleaseAssetResponse, RepoError> {
    let repository = permit.repository(&state.repositories, request.repository.take()).await?;
    let new = NewAsset::check(&request)?;
    let now = state.clock.now_us();
    let mut tx = state.db.begin().await?;
    state.repositories.lock(&mut tx, repository.id()).await?.ok_or(AuthError::RepositoryNotFound)?;
    let release = state.releases.find_locked(&mut tx, repository.id(), request.release_id).await?;
    let release = release.ok_or(RepoError::ReleaseNotFound)?;
    let asset = state.releases.insert_asset(&mut tx, &release, &new, permit.user()?, now).await?;
    change::commit(tx, key, CreateReleaseAssetResponse { asset: Some(encode::asset(asset, &release)) }, now).await
}
