use ferrite_kit::idempotency::IdempotencyKey;
use ferrite_proto::repo::{DeleteAvatarRequest, DeleteAvatarResponse};
use tonic::Request;

use super::super::{change, repeat};
use super::{Account, account};
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<DeleteAvatarRequest>,
) -> Result<DeleteAvatarResponse, RepoError> {
    let key = IdempotencyKey::of(&request, permit.user()?.0, "DeleteAvatar")?;
    let owner = request.get_ref().owner.clone();
    let access = async { account(state, &permit, &owner).await.map(drop) };
    repeat::once(&state.db, key.as_ref(), access, delete(state, &request.get_ref().owner, &permit, key.as_ref())).await
}

async fn delete(
    state: &AppState,
    owner: &str,
    permit: &Permit,
    key: Option<&IdempotencyKey>,
) -> Result<DeleteAvatarResponse, RepoError> {
    let Account { id, action, target } = account(state, permit, owner).await?;
    let now = state.clock.now_us();
    let mut tx = state.db.begin().await?;
    if state.avatars.delete(&mut tx, id).await? {
        change::record(&mut tx, permit, action, target, &[("fields", "avatar".to_owned())], now).await?;
    }
    change::commit(tx, key, DeleteAvatarResponse {}, now).await
}
