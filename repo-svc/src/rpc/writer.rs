//! The account that a request writes for, with the percentage of the limits per hour that applies to it.
//!
//! Not here: counting, which the database handle does.

use ferrite_kit::writer::{Writer, never_refuse, set_writer};
use ferrite_proto::id::UserId;
use ferrite_proto::operation::is_write;

use super::permit::Permit;
use crate::error::RepoError;
use crate::state::AppState;

/// Operations that take access away. They are never refused: who holds a stolen token must not be able to keep its owner from ending it.
/// Each fails if there is nothing to take away, so that none can be done more often than what it undoes, which is counted. Those that
/// may also give access or change nothing call [`never_refuse_if`].
const TAKE_ACCESS_AWAY: [&str; 9] = [
    "ferrite.repo.v1.AccountService/DeleteAccessToken",
    "ferrite.repo.v1.AdministrationService/DeleteUser",
    "ferrite.repo.v1.CollaboratorService/RemoveCollaborator",
    "ferrite.repo.v1.DeployKeyService/DeleteDeployKey",
    "ferrite.repo.v1.OrganizationService/RemoveMember",
    "ferrite.repo.v1.PublicKeyService/DeletePublicKey",
    "ferrite.repo.v1.TeamService/DeleteTeam",
    "ferrite.repo.v1.TransferService/CancelTransfer",
    "ferrite.repo.v1.TransferService/RejectTransfer",
];

/// Names the caller as the writer of a request that changes something.
///
/// # Errors
/// Those of the database.
pub(super) async fn set(state: &AppState, permit: &Permit) -> Result<(), RepoError> {
    if TAKE_ACCESS_AWAY.contains(&permit.operation()) {
        never_refuse();
    }
    match permit.identity() {
        Ok(caller) if is_write(permit.operation()) => set_user(state, UserId(caller.user_id), caller.is_admin).await,
        _ => Ok(()),
    }
}

/// Has the current request done at a reached limit as well, if it takes away access that is there. Called before its transaction, which
/// counts. It cannot be done more often than what gave the access, which is counted.
pub(super) fn never_refuse_if(takes_access_away: bool) {
    if takes_access_away {
        never_refuse();
    }
}

/// Names a user as the writer of the current request, for requests in which the user is not the caller that was authenticated.
///
/// # Errors
/// Those of the database.
pub(super) async fn set_user(state: &AppState, user: UserId, is_admin: bool) -> Result<(), RepoError> {
    let rate_percent = state.creation_limit.rate_percent(user, is_admin).await?;
    set_writer(Writer { account: user, rate_percent });
    Ok(())
}
