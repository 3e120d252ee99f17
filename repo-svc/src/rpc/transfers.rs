//! Transfers of repositories to other owners. The new owner can look up a pending transfer without
//! access to the repository.

use std::collections::HashMap;

use ferrite_core::page::Page;
use ferrite_core::timestamp;
use ferrite_db::Tx;
use ferrite_db::idempotency::{IdempotencyKey, once_or_rebuild};
use ferrite_events as outbox;
use ferrite_events::FlushHandle;
use ferrite_proto::Permission;
use ferrite_proto::events::event::Fact;
use ferrite_proto::events::{RepositoryAction, RepositoryUpdated};
use ferrite_proto::id::{RepositoryId, UserId};
use ferrite_proto::repo::transfer_service_server::TransferService;
use ferrite_proto::repo::{self, *};
use ferrite_rpc::auth::AuthError;
use ferrite_rpc::version;
use tonic::Request;

use super::authorized::{Authorized, repository_key};
use super::dispatch::authorized_service;
use super::{change, encode, repeat, versions};
use crate::access::Viewer;
use crate::error::RepoError;
use crate::model::User;
use crate::state::AppState;
use crate::store::{AccountQuery, AccountsFound, Action, Repository, Target, TransferRow, acts_for, viewer_of};

const MAX_PAGE_SIZE: i32 = 100;
const NEW_OWNER_FIELD: &str = "new_owner";
/// Takes the labels of the former owner from issues, which the response waits for.
const ISSUE_SVC: &str = "issue-svc";
/// Subscribers to transfers.
const SUBSCRIBERS: &[&str] = &[ISSUE_SVC, "hook-svc"];

authorized_service!(TransferService {
    start_transfer(StartTransferRequest) -> StartTransferResponse;
    cancel_transfer(CancelTransferRequest) -> CancelTransferResponse;
    get_transfer(GetTransferRequest) -> GetTransferResponse;
    list_transfers(ListTransfersRequest) -> ListTransfersResponse;
    accept_transfer(AcceptTransferRequest) -> AcceptTransferResponse;
    reject_transfer(RejectTransferRequest) -> RejectTransferResponse;
});

async fn start_transfer(
    state: &AppState,
    authorized: Authorized,
    request: Request<StartTransferRequest>,
) -> Result<StartTransferResponse, RepoError> {
    let key =
        repeat::key_for_repository(state, &authorized, &request, "StartTransfer", |request| &mut request.repository)
            .await?;
    let authorized = &authorized;
    let access = repeat::repository(state, authorized, request.get_ref().repository.clone());
    let rebuild = |stored: StartTransferResponse| async move {
        let id = stored.repository.map_or(0, |repository| repository.id);
        let repository = Some(repeat::read_repository(state, authorized, id).await?);
        Ok(StartTransferResponse { repository, ..stored })
    };
    let work = start(state, request.into_inner(), authorized, key.as_ref());
    repeat::once_or_rebuild(&state.db, key.as_ref(), access, rebuild, work).await
}

async fn start(
    state: &AppState,
    request: StartTransferRequest,
    authorized: &Authorized,
    key: Option<&IdempotencyKey>,
) -> Result<StartTransferResponse, RepoError> {
    let repository = authorized.repository(&state.repositories, request.repository).await?;
    let new_owner = new_owner(state, &repository, &request.new_owner, authorized.viewer()).await?;
    let now = state.clock.now_us();
    if may_act_for(state, authorized, new_owner.id).await? {
        let mut tx = state.db.begin().await?;
        let changed = change_owner(state, &mut tx, authorized, &repository, &new_owner, now).await?;
        let encoded = Some(encode::repository(changed.repository, authorized.viewer()));
        let response = StartTransferResponse { repository: encoded, is_pending: false };
        let subject = subject_of(&repository, false);
        let response = change::commit_with_subject(tx, key, response, &subject, now).await?;
        changed.flush.wait().await;
        return Ok(response);
    }
    let id = repository.id();
    if state.repositories.is_name_taken(new_owner.id, &repository.name.to_ascii_lowercase(), id).await? {
        return Err(RepoError::repository_exists(NEW_OWNER_FIELD, &new_owner.username, &repository.name));
    }
    let mut tx = state.db.begin().await?;
    let owner = state.repositories.lock(&mut tx, id).await?.ok_or(AuthError::RepositoryNotFound)?;
    if owner.0 != repository.owner_id {
        return Err(RepoError::Interrupted);
    }
    state.transfers.insert(&mut tx, id, new_owner.id, authorized.user()?, now).await?;
    let details = [("to", new_owner.username)];
    change::record(&mut tx, authorized, Action::TransferStart, Target::repository(&repository), &details, now).await?;
    let subject = subject_of(&repository, true);
    let encoded = Some(encode::repository(repository, authorized.viewer()));
    let response = StartTransferResponse { repository: encoded, is_pending: true };
    change::commit_with_subject(tx, key, response, &subject, now).await
}

/// The response to store if the full one is too large: only the id of the repository.
fn subject_of(repository: &Repository, is_pending: bool) -> StartTransferResponse {
    let repository = Some(repo::Repository { id: repository.id, ..repo::Repository::default() });
    StartTransferResponse { repository, is_pending }
}

/// Finds the new owner, who must not already own the repository.
async fn new_owner(state: &AppState, repository: &Repository, name: &str, viewer: &Viewer) -> Result<User, RepoError> {
    if name.is_empty() {
        return Err(RepoError::field(NEW_OWNER_FIELD, "required", "is required"));
    }
    let found = match state.accounts.find(name, viewer).await? {
        Some(user) => state.accounts.find_active(user.id, viewer).await?,
        None => None,
    };
    let found = found.ok_or_else(|| RepoError::field(NEW_OWNER_FIELD, "unknown", "does not exist"))?;
    match found.id == UserId(repository.owner_id) {
        true => Err(RepoError::field(NEW_OWNER_FIELD, "invalid", "already owns the repository")),
        false => Ok(found),
    }
}

async fn cancel_transfer(
    state: &AppState,
    authorized: Authorized,
    request: Request<CancelTransferRequest>,
) -> Result<CancelTransferResponse, RepoError> {
    let key =
        repeat::key_for_repository(state, &authorized, &request, "CancelTransfer", |request| &mut request.repository)
            .await?;
    let access = repeat::repository(state, &authorized, request.get_ref().repository.clone());
    repeat::once(&state.db, key.as_ref(), access, cancel(state, request.into_inner(), &authorized, key.as_ref())).await
}

async fn cancel(
    state: &AppState,
    request: CancelTransferRequest,
    authorized: &Authorized,
    key: Option<&IdempotencyKey>,
) -> Result<CancelTransferResponse, RepoError> {
    let repository = authorized.repository(&state.repositories, request.repository).await?;
    let (id, now) = (repository.id(), state.clock.now_us());
    let mut tx = state.db.begin().await?;
    state.repositories.lock(&mut tx, id).await?.ok_or(AuthError::RepositoryNotFound)?;
    let ended = state.transfers.end(&mut tx, id, now).await?.ok_or(RepoError::TransferNotFound)?;
    tx.require_version(Some(&versions::transfer(&ended)))?;
    change::record(&mut tx, authorized, Action::TransferCancel, Target::repository(&repository), &[], now).await?;
    change::commit(tx, key, CancelTransferResponse {}, now).await
}

async fn get_transfer(
    state: &AppState,
    authorized: Authorized,
    request: Request<GetTransferRequest>,
) -> Result<GetTransferResponse, RepoError> {
    let found = find(state, &authorized, request.into_inner().repository).await?;
    let accounts = accounts(state, &found.row, authorized.viewer()).await?;
    version::tell(&versions::transfer(&found.row));
    let transfer = encode_transfer(state, found.repository, &found.row, accounts, authorized.viewer());
    Ok(GetTransferResponse { transfer: Some(transfer) })
}

async fn list_transfers(
    state: &AppState,
    authorized: Authorized,
    request: Request<ListTransfersRequest>,
) -> Result<ListTransfersResponse, RepoError> {
    let request = request.into_inner();
    let page = Page::nearest(request.page, request.page_size, MAX_PAGE_SIZE);
    let viewer = authorized.viewer();
    let (listed, total_count) =
        state.transfers.list(authorized.user()?, viewer.only_repositories(), state.clock.now_us(), page).await?;
    let ids: Vec<_> = listed.iter().map(|one| one.row.repository().0).collect();
    let repositories = state.repositories.find_many(&ids, viewer).await?;
    let mut repositories: HashMap<_, _> = repositories.into_iter().map(|row| (row.id, row)).collect();
    let ids = listed.iter().flat_map(|one| [one.row.new_owner().0, one.row.user().0]).collect();
    let accounts = state.accounts.find_many(AccountQuery { ids, ..AccountQuery::default() }, viewer).await?;
    let transfers = listed.into_iter().filter_map(|one| {
        let repository = repositories.remove(&one.row.repository().0)?;
        // An owner cannot see a fork whose parent is hidden from them.
        if !one.is_received() && repository.level(viewer) < Permission::Owner {
            return None;
        }
        let accounts = accounts_of(&one.row, &accounts);
        Some(encode_transfer(state, repository, &one.row, accounts, viewer))
    });
    Ok(ListTransfersResponse { transfers: transfers.collect(), total_count })
}

async fn accept_transfer(
    state: &AppState,
    authorized: Authorized,
    request: Request<AcceptTransferRequest>,
) -> Result<AcceptTransferResponse, RepoError> {
    let key =
        repeat::key_for_repository(state, &authorized, &request, "AcceptTransfer", |request| &mut request.repository)
            .await?;
    let authorized = &authorized;
    let access = repeat::visible_repository(state, authorized, request.get_ref().repository.clone());
    let rebuild = |id: i64| async move {
        let repository = Some(repeat::read_repository(state, authorized, id).await?);
        Ok(AcceptTransferResponse { repository })
    };
    let work = accept(state, request.into_inner(), authorized, key.as_ref());
    repeat::once_or_rebuild(&state.db, key.as_ref(), access, rebuild, work).await
}

async fn accept(
    state: &AppState,
    request: AcceptTransferRequest,
    authorized: &Authorized,
    key: Option<&IdempotencyKey>,
) -> Result<AcceptTransferResponse, RepoError> {
    let found = find_for_receiver(state, authorized, request.repository).await?;
    // Whoever accepts can act for the new owner, whatever the token is limited to.
    let account = Viewer::account(authorized.user()?, authorized.viewer().is_site_administrator());
    let (new_owner, _) = accounts(state, &found.row, &account).await?;
    let now = state.clock.now_us();
    let mut tx = state.db.begin().await?;
    require_rights(state, &mut tx, authorized, &found.row).await?;
    let changed = change_owner(state, &mut tx, authorized, &found.repository, &new_owner, now).await?;
    // It was withdrawn or ended in the meantime, and possibly started again.
    if changed.pending != Some(found.row) {
        return Err(RepoError::TransferNotFound);
    }
    let repository = Some(encode::repository(changed.repository, authorized.viewer()));
    let (response, id) = (AcceptTransferResponse { repository }, found.repository.id);
    let response = change::commit_with_subject(tx, key, response, &id, now).await?;
    changed.flush.wait().await;
    Ok(response)
}

async fn reject_transfer(
    state: &AppState,
    authorized: Authorized,
    request: Request<RejectTransferRequest>,
) -> Result<RejectTransferResponse, RepoError> {
    let key =
        repeat::key_for_repository(state, &authorized, &request, "RejectTransfer", |request| &mut request.repository)
            .await?;
    let authorized = &authorized;
    let rebuild = |id: i64| async move {
        match repeat::read_repository(state, authorized, id).await {
            Ok(repository) => Ok(RejectTransferResponse { repository: Some(repository) }),
            Err(RepoError::Auth(AuthError::RepositoryNotFound)) => Ok(RejectTransferResponse::default()),
            Err(error) => Err(error),
        }
    };
    let repository = request.get_ref().repository.clone();
    let work = reject(state, request.into_inner(), authorized, key.as_ref());
    let response = once_or_rebuild(&state.db, key.as_ref(), rebuild, work).await?;
    // After the first request the right to reject is gone, so check access only to what the stored
    // response shows.
    let shows_more = key.is_some() && response.repository.is_some();
    if shows_more && repeat::visible_repository(state, authorized, repository).await.is_err() {
        return Ok(RejectTransferResponse::default());
    }
    Ok(response)
}

async fn reject(
    state: &AppState,
    request: RejectTransferRequest,
    authorized: &Authorized,
    key: Option<&IdempotencyKey>,
) -> Result<RejectTransferResponse, RepoError> {
    let found = find_for_receiver(state, authorized, request.repository).await?;
    let (id, now) = (found.repository.id(), state.clock.now_us());
    let mut tx = state.db.begin().await?;
    state.repositories.lock(&mut tx, id).await?.ok_or(AuthError::RepositoryNotFound)?;
    // It was withdrawn in the meantime, and possibly started again for another account.
    if state.transfers.end(&mut tx, id, now).await? != Some(found.row) {
        return Err(RepoError::TransferNotFound);
    }
    change::record(&mut tx, authorized, Action::TransferReject, Target::repository(&found.repository), &[], now)
        .await?;
    // Rejecting ends the right to see a private repository.
    let is_visible = found.repository.access().is_visible(authorized.viewer());
    let repository = is_visible.then(|| encode::repository(found.repository, authorized.viewer()));
    change::commit_with_subject(tx, key, RejectTransferResponse { repository }, &id.0, now).await
}

/// A repository with its new owner, and the transfer that was pending.
#[derive(Debug)]
struct OwnerChange {
    /// Read for the caller.
    repository: Repository,
    pending: Option<TransferRow>,
    /// Waits for issue-svc, after the commit.
    flush: FlushHandle,
}

/// Gives a repository to another account, in the caller's transaction, and ends a pending transfer.
/// Fails with [`RepoError::Interrupted`] if the owner changed in the meantime.
async fn change_owner(
    state: &AppState,
    tx: &mut Tx,
    authorized: &Authorized,
    before: &Repository,
    new_owner: &User,
    now_us: i64,
) -> Result<OwnerChange, RepoError> {
    let (id, limits) = (before.id(), state.quotas.site());
    let to = (new_owner.id, new_owner.username.as_str());
    let former = state.repositories.set_owner(tx, id, to, limits, now_us).await?;
    if former.0 != before.owner_id {
        return Err(RepoError::Interrupted);
    }
    let pending = state.transfers.end(tx, id, now_us).await?;
    let repository = state.repositories.find_in(tx, id, authorized.viewer()).await?;
    let repository = repository.ok_or(AuthError::RepositoryNotFound)?;
    let details = [("from", before.owner_name.clone()), ("to", new_owner.username.clone())];
    change::record(tx, authorized, Action::RepositoryTransfer, Target::repository(&repository), &details, now_us)
        .await?;
    let fact = Fact::RepositoryUpdated(RepositoryUpdated {
        action: RepositoryAction::Transferred.into(),
        repository: Some(encode::repository_snapshot(repository.clone())),
        user_id: authorized.user()?.0,
        old_name: before.name.clone(),
        old_owner: encode::repository_snapshot(before.clone()).owner,
    });
    let event = outbox::event(id, now_us, fact);
    let flush = state.relay.flush(&event, &[ISSUE_SVC]);
    outbox::append(tx, &event, SUBSCRIBERS, now_us).await?;
    Ok(OwnerChange { repository, pending, flush })
}

/// A pending transfer and its repository, read for the caller.
#[derive(Clone, Debug)]
struct PendingTransfer {
    repository: Repository,
    row: TransferRow,
    /// The caller may accept it.
    is_receiver: bool,
}

/// Returns the pending transfer of a repository, to its receivers and to owners of the repository.
/// For anybody else a private repository does not exist.
async fn find(
    state: &AppState,
    authorized: &Authorized,
    by: Option<RepositoryRef>,
) -> Result<PendingTransfer, RepoError> {
    let key = by.as_ref().and_then(|reference| repository_key(reference.by.as_ref()?));
    let found = match &key {
        Some(key) => state.repositories.find(key, authorized.viewer()).await?,
        None => None,
    };
    // Makes a missing repository take as many queries as a hidden one.
    let id = found.as_ref().map_or(RepositoryId(0), Repository::id);
    let row = state.transfers.find(id, state.clock.now_us()).await?;
    if let (Some(repository), Some(row)) = (found, row)
        && is_receiver(state, authorized, &repository, row.new_owner()).await?
    {
        return Ok(PendingTransfer { repository, row, is_receiver: true });
    }
    let repository = authorized.visible_repository(&state.repositories, by).await?;
    if repository.level(authorized.viewer()) < Permission::Owner {
        return Err(AuthError::PermissionRequired { needed: Permission::Owner }.into());
    }
    let row = row.ok_or(RepoError::TransferNotFound)?;
    Ok(PendingTransfer { repository, row, is_receiver: false })
}

/// Like [`find`], but only for receivers.
async fn find_for_receiver(
    state: &AppState,
    authorized: &Authorized,
    by: Option<RepositoryRef>,
) -> Result<PendingTransfer, RepoError> {
    let found = find(state, authorized, by).await?;
    if found.is_receiver { Ok(found) } else { Err(RepoError::TransferReceiverRequired) }
}

/// Whether the caller may accept a transfer to `new_owner`. A limited token must cover the
/// repository.
async fn is_receiver(
    state: &AppState,
    authorized: &Authorized,
    repository: &Repository,
    new_owner: UserId,
) -> Result<bool, RepoError> {
    let only = authorized.viewer().only_repositories();
    Ok(only.is_none_or(|only| only.contains(&repository.id)) && may_act_for(state, authorized, new_owner).await?)
}

/// Whether the caller is the account, owns the organization, or is a site administrator.
async fn may_act_for(state: &AppState, authorized: &Authorized, account: UserId) -> Result<bool, RepoError> {
    let user = authorized.user()?;
    if user == account || authorized.viewer().is_site_administrator() {
        return Ok(true);
    }
    // Users have no members.
    let membership = state.organizations.membership(account, user).await?;
    Ok(membership.is_some_and(|membership| membership.is_owner))
}

/// Returns the new owner and the user who started the transfer, as `viewer` sees them.
async fn accounts(state: &AppState, row: &TransferRow, viewer: &Viewer) -> Result<(User, User), RepoError> {
    let ids = vec![row.new_owner().0, row.user().0];
    let found = state.accounts.find_many(AccountQuery { ids, ..AccountQuery::default() }, viewer).await?;
    Ok(accounts_of(row, &found))
}

/// Like [`accounts`], from accounts that were already read. An organization that was hidden from the
/// viewer after the start is shown like a deleted account.
fn accounts_of(row: &TransferRow, found: &AccountsFound) -> (User, User) {
    let account = |id: UserId| {
        let seen = found.users.iter().find(|user| user.id == id).cloned();
        seen.unwrap_or_else(|| User::ghost(id))
    };
    (account(row.new_owner()), account(row.user()))
}

/// Checks again, in the transaction that accepts: the user who started the transfer must still own
/// the repository, and the caller must still be able to act for the new owner.
async fn require_rights(
    state: &AppState,
    tx: &mut Tx,
    authorized: &Authorized,
    row: &TransferRow,
) -> Result<(), RepoError> {
    let starter = viewer_of(tx, row.user()).await?.ok_or(RepoError::TransferNotFound)?;
    let repository = state.repositories.find_in(tx, row.repository(), &starter).await?;
    if repository.is_none_or(|repository| repository.level(&starter) < Permission::Owner) {
        return Err(RepoError::TransferNotFound);
    }
    match acts_for(tx, authorized.user()?, row.new_owner(), authorized.viewer().is_site_administrator()).await? {
        true => Ok(()),
        false => Err(RepoError::TransferReceiverRequired),
    }
}

/// Encodes a transfer as `viewer` sees it.
fn encode_transfer(
    state: &AppState,
    repository: Repository,
    row: &TransferRow,
    (new_owner, user): (User, User),
    viewer: &Viewer,
) -> Transfer {
    Transfer {
        repository: Some(encode::repository(repository, viewer)),
        new_owner: Some(encode::user(new_owner, viewer)),
        user: Some(encode::user(user, viewer)),
        create_time: Some(timestamp(row.created_us)),
        expire_time: Some(timestamp(state.transfers.expire_us(row))),
    }
}
