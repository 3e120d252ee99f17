//! Pictures of users and organizations, as files that are ready to be shown.
//!
//! Not here: decoding and scaling of pictures that clients send, and pictures of accounts without an uploaded one (gateway).

mod delete_avatar;
mod get_avatar;
mod set_avatar;

use ferrite_proto::id::UserId;
use ferrite_proto::repo::avatar_service_server::AvatarService;
use ferrite_proto::repo::*;

use super::dispatch::permitted_service;
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::{Action, Target};

permitted_service!(AvatarService {
    get_avatar(GetAvatarRequest) -> GetAvatarResponse;
    set_avatar(SetAvatarRequest, owner) -> SetAvatarResponse;
    delete_avatar(DeleteAvatarRequest, owner) -> DeleteAvatarResponse;
});

/// The account that a change of a picture is about, and the change's entry in the audit log.
struct Account {
    id: UserId,
    action: Action,
    target: Target,
}

/// Returns the account of a request: the organization `owner`, or the caller.
async fn account(state: &AppState, permit: &Permit, owner: &str) -> Result<Account, RepoError> {
    if owner.is_empty() {
        let identity = permit.identity()?;
        let id = UserId(identity.user_id);
        return Ok(Account { id, action: Action::UserUpdate, target: Target::user(id, &identity.username) });
    }
    let organization = permit.organization(&state.organizations, owner).await?;
    let target = Target::organization(organization.id(), &organization.name);
    Ok(Account { id: organization.id(), action: Action::OrganizationUpdate, target })
}
