use ferrite_kit::auth::AuthError;
use ferrite_kit::idempotency::IdempotencyKey;
use ferrite_proto::repo::{DeleteReleaseRequest, DeleteReleaseResponse};
use tonic::Request;

use super::storage;
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::rpc::{change, repeat};
use crate::state::AppState;

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<DeleteReleaseRequest>,
) -> Result<DeleteReleaseResponse, RepoError> {
    let key = IdempotencyKey::of(&request, permit.user()?.0, "DeleteRelease")?;
    let access = repeat::repository(state, &permit, request.get_ref().repository.clone());
    repeat::once(&state.db, key.as_ref(), access, delete(state, request.into_inner(), &permit, key.as_ref())).await
}

async fn delete(
    state: &AppState,
    request: DeleteReleaseRequest,
    permit: &Permit,
    key: Option<&IdempotencyKey>,
) -> Result<DeleteReleaseResponse, RepoError> {
    let repository = permit.repository(&state.repositories, request.repository).await?;
    let mut tx = state.db.begin().await?;
    let owner = state.repositories.lock(&mut tx, repository.id()).await?.ok_or(AuthError::RepositoryNotFound)?;
    let found = state.releases.find_locked(&mut tx, repository.id(), request.release_id).await?;
    let release = found.ok_or(RepoError::ReleaseNotFound)?;
    let bytes = state.releases.asset_bytes(&mut tx, &release).await?;
    let file_ids = state.releases.delete(&mut tx, &release).await?;
    state.quotas.release(&mut tx, owner, bytes).await?;
    let answer = change::commit(tx, key, DeleteReleaseResponse {}, state.clock.now_us()).await?;
    storage::remove_files(state, repository.id(), &repository.store, file_ids).await;
    Ok(answer)
}
