use ferrite_kit::auth::AuthError;
use ferrite_kit::idempotency::IdempotencyKey;
use ferrite_proto::repo::{CancelTransferRequest, CancelTransferResponse};
use tonic::Request;

use super::super::{change, repeat};
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::{Action, Target};

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<CancelTransferRequest>,
) -> Result<CancelTransferResponse, RepoError> {
    let key = IdempotencyKey::of(&request, permit.user()?.0, "CancelTransfer")?;
    let access = repeat::repository(state, &permit, request.get_ref().repository.clone());
    repeat::once(&state.db, key.as_ref(), access, cancel(state, request.into_inner(), &permit, key.as_ref())).await
}

async fn cancel(
    state: &AppState,
    request: CancelTransferRequest,
    permit: &Permit,
    key: Option<&IdempotencyKey>,
) -> Result<CancelTransferResponse, RepoError> {
    let repository = permit.repository(&state.repositories, request.repository).await?;
    let (id, now) = (repository.id(), state.clock.now_us());
    let mut tx = state.db.begin().await?;
    state.repositories.lock(&mut tx, id).await?.ok_or(AuthError::RepositoryNotFound)?;
    state.transfers.end(&mut tx, id, now).await?.ok_or(RepoError::TransferNotFound)?;
    change::record(&mut tx, permit, Action::TransferCancel, Target::repository(&repository), &[], now).await?;
    change::commit(tx, key, CancelTransferResponse {}, now).await
}
