use ferrite_kit::auth::AuthError;
use ferrite_kit::idempotency::{IdempotencyKey, once};
use ferrite_proto::repo::{RejectTransferRequest, RejectTransferResponse};
use tonic::Request;

use super::super::{change, encode};
use super::pending::find_for_receiver;
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::{Action, Target};

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<RejectTransferRequest>,
) -> Result<RejectTransferResponse, RepoError> {
    let key = IdempotencyKey::of(&request, permit.user()?.0, "RejectTransfer")?;
    once(&state.db, key.as_ref(), reject(state, request.into_inner(), &permit, key.as_ref())).await
}

async fn reject(
    state: &AppState,
    request: RejectTransferRequest,
    permit: &Permit,
    key: Option<&IdempotencyKey>,
) -> Result<RejectTransferResponse, RepoError> {
    let found = find_for_receiver(state, permit, request.repository).await?;
    let (id, now) = (found.repository.id(), state.clock.now_us());
    let mut tx = state.db.begin().await?;
    state.repositories.lock(&mut tx, id).await?.ok_or(AuthError::RepositoryNotFound)?;
    // Withdrawn meanwhile, and possibly started again for another account.
    if state.transfers.end(&mut tx, id).await? != Some(found.row.new_owner()) {
        return Err(RepoError::TransferNotFound);
    }
    change::record(&mut tx, permit, Action::TransferReject, Target::repository(&found.repository), &[], now).await?;
    // The rejection ends the right to see a private repository.
    let is_visible = found.repository.access().is_visible(permit.viewer());
    let repository = is_visible.then(|| encode::repository(found.repository, permit.viewer()));
    change::commit(tx, key, RejectTransferResponse { repository }, now).await
}
