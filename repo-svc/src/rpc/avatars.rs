//! Pictures of users and organizations, ready to serve. The gateway decodes and scales uploads and
//! draws pictures for accounts without one.

use ferrite_db::idempotency::IdempotencyKey;
use ferrite_proto::id::UserId;
use ferrite_proto::repo::avatar_service_server::AvatarService;
use ferrite_proto::repo::*;
use tonic::Request;

use super::authorized::Authorized;
use super::dispatch::authorized_service;
use super::{change, repeat};
use crate::error::RepoError;
use crate::model::Avatar;
use crate::state::AppState;
use crate::store::{Action, Target};

authorized_service!(AvatarService {
    get_avatar(GetAvatarRequest) -> GetAvatarResponse;
    set_avatar(SetAvatarRequest, owner) -> SetAvatarResponse;
    delete_avatar(DeleteAvatarRequest, owner) -> DeleteAvatarResponse;
});

async fn get_avatar(
    state: &AppState,
    authorized: Authorized,
    request: Request<GetAvatarRequest>,
) -> Result<GetAvatarResponse, RepoError> {
    let found = state.avatars.find(UserId(request.get_ref().user_id), authorized.viewer()).await?;
    let found = found.ok_or(RepoError::UserNotFound)?;
    let is_hidden = found.is_hidden();
    let (content, sha256) = (found.content.unwrap_or_default(), found.sha256.unwrap_or_default());
    Ok(GetAvatarResponse { content, sha256, is_hidden })
}

async fn set_avatar(
    state: &AppState,
    authorized: Authorized,
    request: Request<SetAvatarRequest>,
) -> Result<SetAvatarResponse, RepoError> {
    let key = IdempotencyKey::of(&request, authorized.user()?.0, "SetAvatar")?;
    let owner = request.get_ref().owner.clone();
    let access = async { account(state, &authorized, &owner).await.map(drop) };
    repeat::once(&state.db, key.as_ref(), access, set(state, request.into_inner(), &authorized, key.as_ref())).await
}

async fn set(
    state: &AppState,
    request: SetAvatarRequest,
    authorized: &Authorized,
    key: Option<&IdempotencyKey>,
) -> Result<SetAvatarResponse, RepoError> {
    let Account { id, action, target } = account(state, authorized, &request.owner).await?;
    let avatar = Avatar::parse(request.content)?;
    let now = state.clock.now_us();
    let mut tx = state.db.begin().await?;
    if state.avatars.set(&mut tx, id, avatar, now).await? {
        change::record(&mut tx, authorized, action, target, &[("fields", "avatar".to_owned())], now).await?;
    }
    change::commit(tx, key, SetAvatarResponse {}, now).await
}

async fn delete_avatar(
    state: &AppState,
    authorized: Authorized,
    request: Request<DeleteAvatarRequest>,
) -> Result<DeleteAvatarResponse, RepoError> {
    let key = IdempotencyKey::of(&request, authorized.user()?.0, "DeleteAvatar")?;
    let owner = request.get_ref().owner.clone();
    let access = async { account(state, &authorized, &owner).await.map(drop) };
    repeat::once(&state.db, key.as_ref(), access, delete(state, &request.get_ref().owner, &authorized, key.as_ref()))
        .await
}

async fn delete(
    state: &AppState,
    owner: &str,
    authorized: &Authorized,
    key: Option<&IdempotencyKey>,
) -> Result<DeleteAvatarResponse, RepoError> {
    let Account { id, action, target } = account(state, authorized, owner).await?;
    let now = state.clock.now_us();
    let mut tx = state.db.begin().await?;
    if state.avatars.delete(&mut tx, id).await? {
        change::record(&mut tx, authorized, action, target, &[("fields", "avatar".to_owned())], now).await?;
    }
    change::commit(tx, key, DeleteAvatarResponse {}, now).await
}

/// The account whose picture changes, with the audit log entry for the change.
struct Account {
    id: UserId,
    action: Action,
    target: Target,
}

/// The organization `owner`, or the caller if `owner` is empty.
async fn account(state: &AppState, authorized: &Authorized, owner: &str) -> Result<Account, RepoError> {
    if owner.is_empty() {
        let identity = authorized.identity()?;
        let id = UserId(identity.user_id);
        return Ok(Account { id, action: Action::UserUpdate, target: Target::user(id, &identity.username) });
    }
    let organization = authorized.organization(&state.organizations, owner).await?;
    let target = Target::organization(organization.id(), &organization.name);
    Ok(Account { id: organization.id(), action: Action::OrganizationUpdate, target })
}
