//! Transfers that wait, for the operations of the new owner, who need not see the repository otherwise.

use ferrite_kit::auth::AuthError;
use ferrite_kit::db::Tx;
use ferrite_kit::timestamp;
use ferrite_proto::Permission;
use ferrite_proto::id::{RepositoryId, UserId};
use ferrite_proto::repo::{RepositoryRef, Transfer};

use super::super::encode as common;
use crate::access::Viewer;
use crate::error::RepoError;
use crate::model::User;
use crate::rpc::permit::{Permit, repository_key};
use crate::state::AppState;
use crate::store::{AccountQuery, AccountsFound, Repository, TransferRow, acts_for, viewer_of};

/// A transfer that waits, with its repository as it was read for the caller.
#[derive(Clone, Debug)]
pub(super) struct PendingTransfer {
    pub(super) repository: Repository,
    pub(super) row: TransferRow,
    /// True if the caller may accept it.
    pub(super) is_receiver: bool,
}

/// Returns the transfer of a repository that waits, to its receivers and to owners of the repository.
///
/// # Errors
/// [`AuthError::RepositoryNotFound`] if the caller is no receiver and may not see the repository, [`AuthError::PermissionRequired`] if
/// it sees it and does not own it, [`RepoError::TransferNotFound`], [`RepoError::RepositoryMoved`], or those of the database.
pub(super) async fn find(
    state: &AppState,
    permit: &Permit,
    by: Option<RepositoryRef>,
) -> Result<PendingTransfer, RepoError> {
    let key = by.as_ref().and_then(|reference| repository_key(reference.by.as_ref()?));
    let found = match &key {
        Some(key) => state.repositories.find(key, permit.viewer()).await?,
        None => None,
    };
    // A missing repository takes as many queries as a hidden one.
    let id = found.as_ref().map_or(RepositoryId(0), Repository::id);
    let row = state.transfers.find(id, state.clock.now_us()).await?;
    if let (Some(repository), Some(row)) = (found, row)
        && is_receiver(state, permit, &repository, row.new_owner()).await?
    {
        return Ok(PendingTransfer { repository, row, is_receiver: true });
    }
    let repository = permit.visible_repository(&state.repositories, by).await?;
    if repository.level(permit.viewer()) < Permission::Owner {
        return Err(AuthError::PermissionRequired { needed: Permission::Owner }.into());
    }
    let row = row.ok_or(RepoError::TransferNotFound)?;
    Ok(PendingTransfer { repository, row, is_receiver: false })
}

/// As [`find`], for operations of receivers alone.
///
/// # Errors
/// [`RepoError::TransferReceiverRequired`] for owners of the repository who are no receivers, or those of [`find`].
pub(super) async fn find_for_receiver(
    state: &AppState,
    permit: &Permit,
    by: Option<RepositoryRef>,
) -> Result<PendingTransfer, RepoError> {
    let found = find(state, permit, by).await?;
    if found.is_receiver { Ok(found) } else { Err(RepoError::TransferReceiverRequired) }
}

/// Returns whether the caller may accept a transfer of the repository to `new_owner`. A limited token has to cover the repository.
async fn is_receiver(
    state: &AppState,
    permit: &Permit,
    repository: &Repository,
    new_owner: UserId,
) -> Result<bool, RepoError> {
    let only = permit.viewer().only_repositories();
    Ok(only.is_none_or(|only| only.contains(&repository.id)) && may_act_for(state, permit, new_owner).await?)
}

/// Returns whether the caller administers an account: it is the account, owns the organization, or administers the site.
pub(super) async fn may_act_for(state: &AppState, permit: &Permit, account: UserId) -> Result<bool, RepoError> {
    let user = permit.user()?;
    if user == account || permit.viewer().is_site_administrator() {
        return Ok(true);
    }
    // No user has members.
    let membership = state.organizations.membership(account, user).await?;
    Ok(membership.is_some_and(|membership| membership.is_owner))
}

/// Returns the new owner and the user who started the transfer.
///
/// # Errors
/// [`RepoError::TransferNotFound`] if one of them was deleted, with which the transfer ended, or those of the database.
pub(super) async fn accounts(state: &AppState, row: &TransferRow) -> Result<(User, User), RepoError> {
    let ids = vec![row.new_owner().0, row.user().0];
    let found = state.accounts.find_many(AccountQuery { ids, ..AccountQuery::default() }).await?;
    accounts_of(row, &found).ok_or(RepoError::TransferNotFound)
}

/// Returns the new owner and the user who started a transfer, if both are among the accounts that were found.
pub(super) fn accounts_of(row: &TransferRow, found: &AccountsFound) -> Option<(User, User)> {
    let account = |id: UserId| found.users.iter().find(|user| user.id == id).cloned();
    account(row.new_owner()).zip(account(row.user()))
}

/// Checks, in the transaction of an acceptance, that the user who started the transfer still owns the repository, and that the caller may
/// still act for the new owner. The rights that a request was checked for may be lost before it takes effect.
///
/// # Errors
/// [`RepoError::TransferNotFound`], [`RepoError::TransferReceiverRequired`], or those of the database.
pub(super) async fn require_rights(
    state: &AppState,
    tx: &mut Tx,
    permit: &Permit,
    row: &TransferRow,
) -> Result<(), RepoError> {
    let starter = viewer_of(tx, row.user()).await?.ok_or(RepoError::TransferNotFound)?;
    let repository = state.repositories.find_in(tx, row.repository(), &starter).await?;
    if repository.is_none_or(|repository| repository.level(&starter) < Permission::Owner) {
        return Err(RepoError::TransferNotFound);
    }
    match acts_for(tx, permit.user()?, row.new_owner(), permit.viewer().is_site_administrator()).await? {
        true => Ok(()),
        false => Err(RepoError::TransferReceiverRequired),
    }
}

/// Encodes a transfer from `user` to `new_owner` as `viewer` sees it.
pub(super) fn encode(
    state: &AppState,
    repository: Repository,
    row: &TransferRow,
    (new_owner, user): (User, User),
    viewer: &Viewer,
) -> Transfer {
    Transfer {
        repository: Some(common::repository(repository, viewer)),
        new_owner: Some(common::user(new_owner, viewer)),
        user: Some(common::user(user, viewer)),
        create_time: Some(timestamp(row.created_us)),
        expire_time: Some(timestamp(state.transfers.expire_us(row))),
    }
}
