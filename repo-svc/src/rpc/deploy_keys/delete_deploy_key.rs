use ferrite_kit::auth::AuthError;
use ferrite_kit::idempotency::IdempotencyKey;
use ferrite_proto::id::DeployKeyId;
use ferrite_proto::repo::{DeleteDeployKeyRequest, DeleteDeployKeyResponse};
use tonic::Request;

use super::super::{change, repeat};
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::{Action, Target};

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<DeleteDeployKeyRequest>,
) -> Result<DeleteDeployKeyResponse, RepoError> {
    let key = IdempotencyKey::of(&request, permit.user()?.0, "DeleteDeployKey")?;
    let access = repeat::repository(state, &permit, request.get_ref().repository.clone());
    repeat::once(&state.db, key.as_ref(), access, delete(state, request.into_inner(), &permit, key.as_ref())).await
}

async fn delete(
    state: &AppState,
    request: DeleteDeployKeyRequest,
    permit: &Permit,
    key: Option<&IdempotencyKey>,
) -> Result<DeleteDeployKeyResponse, RepoError> {
    let repository = permit.repository(&state.repositories, request.repository).await?;
    let now = state.clock.now_us();
    let mut tx = state.db.begin().await?;
    state.repositories.lock(&mut tx, repository.id()).await?.ok_or(AuthError::RepositoryNotFound)?;
    let removed = state.deploy_keys.delete(&mut tx, repository.id(), DeployKeyId(request.key_id)).await?;
    let removed = removed.ok_or(RepoError::KeyNotFound)?;
    let details = [("fingerprint", removed.fingerprint), ("title", removed.title)];
    change::record(&mut tx, permit, Action::DeployKeyRemove, Target::repository(&repository), &details, now).await?;
    change::commit(tx, key, DeleteDeployKeyResponse {}, now).await
}
