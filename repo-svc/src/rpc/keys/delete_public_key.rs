use ferrite_kit::idempotency::{IdempotencyKey, once};
use ferrite_proto::id::PublicKeyId;
use ferrite_proto::repo::{DeletePublicKeyRequest, DeletePublicKeyResponse};
use tonic::Request;

use super::super::change;
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::{Action, Target};

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<DeletePublicKeyRequest>,
) -> Result<DeletePublicKeyResponse, RepoError> {
    let key = IdempotencyKey::of(&request, permit.user()?.0, "DeletePublicKey")?;
    let id = PublicKeyId(request.get_ref().key_id);
    once(&state.db, key.as_ref(), delete(state, id, &permit, key.as_ref())).await
}

async fn delete(
    state: &AppState,
    id: PublicKeyId,
    permit: &Permit,
    key: Option<&IdempotencyKey>,
) -> Result<DeletePublicKeyResponse, RepoError> {
    let (user, now) = (permit.user()?, state.clock.now_us());
    let mut tx = state.db.begin().await?;
    // A token for some repositories has no power over the keys that open others.
    let only_of = if permit.identity()?.is_limited { permit.limited_token()? } else { None };
    let row = state.public_keys.delete(&mut tx, user, id, only_of).await?.ok_or(RepoError::KeyNotFound)?;
    let target = Target::user(user, &permit.identity()?.username);
    let details = [("title", row.title), ("fingerprint", row.fingerprint)];
    change::record(&mut tx, permit, Action::KeyRemove, target, &details, now).await?;
    change::commit(tx, key, DeletePublicKeyResponse {}, now).await
}
