use ferrite_kit::idempotency::IdempotencyKey;
use ferrite_proto::repo::{AcceptTransferRequest, AcceptTransferResponse};
use tonic::Request;

use super::super::{change, encode, repeat};
use super::change_owner::change_owner;
use super::pending::{accounts, find_for_receiver, require_rights};
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<AcceptTransferRequest>,
) -> Result<AcceptTransferResponse, RepoError> {
    let key = IdempotencyKey::of(&request, permit.user()?.0, "AcceptTransfer")?;
    let permit = &permit;
    let access = repeat::visible_repository(state, permit, request.get_ref().repository.clone());
    let rebuild = |id: i64| async move {
        let repository = Some(repeat::read_repository(state, permit, id).await?);
        Ok(AcceptTransferResponse { repository })
    };
    let work = accept(state, request.into_inner(), permit, key.as_ref());
    repeat::once_or_rebuild(&state.db, key.as_ref(), access, rebuild, work).await
}

async fn accept(
    state: &AppState,
    request: AcceptTransferRequest,
    permit: &Permit,
    key: Option<&IdempotencyKey>,
) -> Result<AcceptTransferResponse, RepoError> {
    let found = find_for_receiver(state, permit, request.repository).await?;
    let (new_owner, _) = accounts(state, &found.row).await?;
    let now = state.clock.now_us();
    let mut tx = state.db.begin().await?;
    require_rights(state, &mut tx, permit, &found.row).await?;
    let changed = change_owner(state, &mut tx, permit, &found.repository, &new_owner, now).await?;
    // Withdrawn meanwhile, or ended with the right of its starter, and possibly started again.
    if changed.pending != Some(found.row) {
        return Err(RepoError::TransferNotFound);
    }
    let repository = Some(encode::repository(changed.repository, permit.viewer()));
    let (answer, id) = (AcceptTransferResponse { repository }, found.repository.id);
    let answer = change::commit_with_subject(tx, key, answer, &id, now).await?;
    state.relay.wake();
    Ok(answer)
}
