//! `CreateReleaseAsset`: the entry of a file whose bytes are on the store.

use ferrite_kit::auth::AuthError;
use ferrite_kit::idempotency::IdempotencyKey;
use ferrite_kit::writer::serve;
use ferrite_proto::repo::{CreateReleaseAssetRequest, CreateReleaseAssetResponse};
use tonic::Request;

use super::{encode, storage};
use crate::error::RepoError;
use crate::model::NewAsset;
use crate::rpc::permit::Permit;
use crate::rpc::{change, repeat};
use crate::state::AppState;

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<CreateReleaseAssetRequest>,
) -> Result<CreateReleaseAssetResponse, RepoError> {
    let (metadata, extensions, request) = request.into_parts();
    // A repeated upload has another file on the store, of the same content.
    let content = CreateReleaseAssetRequest { file_id: String::new(), ..request.clone() };
    let content = Request::from_parts(metadata, extensions, content);
    let key = IdempotencyKey::of(&content, permit.user()?.0, "CreateReleaseAsset")?;
    let access = repeat::repository(state, &permit, request.repository.clone());
    let file_id = request.file_id.clone();
    let outcome = repeat::once(&state.db, key.as_ref(), access, create(state, request, &permit, key.as_ref())).await;
    if outcome.is_err() || key.is_some() {
        discard(state, &file_id).await;
    }
    outcome
}

/// Removes the bytes of a file that no release got, so that refused and repeated uploads do not fill the disk until the reservation ends.
async fn discard(state: &AppState, file_id: &str) {
    // Done for nobody, so that it is not refused: the caller may have written as much as it may.
    if let Err(error) = serve(try_discard(state, file_id)).await {
        tracing::warn!(%error, "a file that no release got is removed later");
    }
}

async fn try_discard(state: &AppState, file_id: &str) -> Result<(), RepoError> {
    let Some(repository) = state.releases.discard_file(file_id).await? else { return Ok(()) };
    if let Some(store) = state.stores.table().of_repositories(&[repository]).await?.get(&repository) {
        storage::remove_files(state, repository, store, vec![file_id.to_owned()]).await;
    }
    Ok(())
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
    let owner = state.repositories.lock(&mut tx, repository.id()).await?.ok_or(AuthError::RepositoryNotFound)?;
    let release = state.releases.find_locked(&mut tx, repository.id(), request.release_id).await?;
    let release = release.ok_or(RepoError::ReleaseNotFound)?;
    let asset = state.releases.insert_asset(&mut tx, &release, &new, permit.user()?, now).await?;
    state.quotas.charge(&mut tx, owner, new.size_bytes).await?;
    change::commit(tx, key, CreateReleaseAssetResponse { asset: Some(encode::asset(asset, &release)) }, now).await
}
