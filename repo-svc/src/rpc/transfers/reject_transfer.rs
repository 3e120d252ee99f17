use ferrite_kit::auth::AuthError;
use ferrite_kit::idempotency::{IdempotencyKey, once_or_rebuild};
use ferrite_proto::repo::{RejectTransferRequest, RejectTransferResponse};
use tonic::Request;

use super::super::{change, encode, repeat};
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
    let permit = &permit;
    let rebuild = |id: i64| async move {
        match repeat::read_repository(state, permit, id).await {
            Ok(repository) => Ok(RejectTransferResponse { repository: Some(repository) }),
            Err(RepoError::Auth(AuthError::RepositoryNotFound)) => Ok(RejectTransferResponse::default()),
            Err(error) => Err(error),
        }
    };
    let repository = request.get_ref().repository.clone();
    let work = reject(state, request.into_inner(), permit, key.as_ref());
    let answer = once_or_rebuild(&state.db, key.as_ref(), rebuild, work).await?;
    // The right to reject ended with the first request, so a repeated one has only what it shows to check.
    let shows_more = key.is_some() && answer.repository.is_some();
    if shows_more && repeat::visible_repository(state, permit, repository).await.is_err() {
        return Ok(RejectTransferResponse::default());
    }
    Ok(answer)
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
    if state.transfers.end(&mut tx, id, now).await? != Some(found.row) {
        return Err(RepoError::TransferNotFound);
    }
    change::record(&mut tx, permit, Action::TransferReject, Target::repository(&found.repository), &[], now).await?;
    // The rejection ends the right to see a private repository.
    let is_visible = found.repository.access().is_visible(permit.viewer());
    let repository = is_visible.then(|| encode::repository(found.repository, permit.viewer()));
    change::commit_with_subject(tx, key, RejectTransferResponse { repository }, &id.0, now).await
}
