use ferrite_kit::idempotency::IdempotencyKey;
use ferrite_proto::repo::{SetAvatarRequest, SetAvatarResponse};
use tonic::Request;

use super::super::{change, repeat};
use super::{Account, account};
use crate::error::RepoError;
use crate::model::Avatar;
use crate::rpc::permit::Permit;
use crate::state::AppState;

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<SetAvatarRequest>,
) -> Result<SetAvatarResponse, RepoError> {
    let key = IdempotencyKey::of(&request, permit.user()?.0, "SetAvatar")?;
    let owner = request.get_ref().owner.clone();
    let access = async { account(state, &permit, &owner).await.map(drop) };
    repeat::once(&state.db, key.as_ref(), access, set(state, request.into_inner(), &permit, key.as_ref())).await
}

async fn set(
    state: &AppState,
    request: SetAvatarRequest,
    permit: &Permit,
    key: Option<&IdempotencyKey>,
) -> Result<SetAvatarResponse, RepoError> {
    let Account { id, action, target } = account(state, permit, &request.owner).await?;
    let avatar = Avatar::parse(request.content)?;
    let now = state.clock.now_us();
    let mut tx = state.db.begin().await?;
    if state.avatars.set(&mut tx, id, avatar, now).await? {
        change::record(&mut tx, permit, action, target, &[("fields", "avatar".to_owned())], now).await?;
    }
    change::commit(tx, key, SetAvatarResponse {}, now).await
}
