//! SSH keys of users.

use ferrite_db::idempotency::{IdempotencyKey, once, once_or_rebuild};
use ferrite_proto::id::{PublicKeyId, UserId};
use ferrite_proto::repo::public_key_service_server::PublicKeyService;
use ferrite_proto::repo::*;
use ferrite_rpc::version;
use tonic::Request;

use super::authorized::Authorized;
use super::dispatch::authorized_service;
use super::lookup::{self, Owner};
use super::{change, encode, versions};
use crate::access::Capacity;
use crate::error::RepoError;
use crate::model::parse_titled_key;
use crate::state::AppState;
use crate::store::{AccountQuery, Action, NewPublicKey, PublicKeyRow, Target};

authorized_service!(PublicKeyService {
    list_public_keys(ListPublicKeysRequest) -> ListPublicKeysResponse;
    get_public_key(GetPublicKeyRequest) -> GetPublicKeyResponse;
    create_public_key(CreatePublicKeyRequest, as_administrator) -> CreatePublicKeyResponse;
    delete_public_key(DeletePublicKeyRequest, as_administrator) -> DeletePublicKeyResponse;
});

async fn list_public_keys(
    state: &AppState,
    authorized: Authorized,
    request: Request<ListPublicKeysRequest>,
) -> Result<ListPublicKeysResponse, RepoError> {
    let request = request.into_inner();
    let owner = owner(state, &authorized, &request.username).await?;
    let page = lookup::page(request.page, request.page_size);
    let (rows, total_count) = state.public_keys.list(UserId(owner.id), page).await?;
    let caller = authorized.user()?;
    let keys = rows.into_iter().map(|row| shown(row, owner.clone(), caller)).collect();
    Ok(ListPublicKeysResponse { keys, total_count })
}

/// Returns the user that a request names, or the caller.
async fn owner(state: &AppState, authorized: &Authorized, username: &str) -> Result<User, RepoError> {
    let caller = authorized.identity()?;
    if username.is_empty() || username.eq_ignore_ascii_case(&caller.username) {
        return Ok(encode::identity(caller));
    }
    Ok(encode::user(lookup::user(state, username).await?, authorized.viewer()))
}

/// Encodes a key of `owner`. Only the owner sees the token that it is bound to.
fn shown(row: PublicKeyRow, owner: User, caller: UserId) -> PublicKey {
    let is_own = owner.id == caller.0;
    let key = encode::public_key(row, owner);
    PublicKey { token: key.token.filter(|_| is_own), ..key }
}

async fn get_public_key(
    state: &AppState,
    authorized: Authorized,
    request: Request<GetPublicKeyRequest>,
) -> Result<GetPublicKeyResponse, RepoError> {
    let (id, caller) = (PublicKeyId(request.get_ref().key_id), authorized.user()?);
    let row = match authorized.viewer().is_site_administrator() {
        true => state.public_keys.find_of_any_user(id).await?,
        false => state.public_keys.find(caller, id).await?,
    };
    let row = row.ok_or(RepoError::KeyNotFound)?;
    version::tell(&versions::public_key(id, &row.title, &row.fingerprint));
    let owner = if row.user_id == caller.0 {
        encode::identity(authorized.identity()?)
    } else {
        let query = AccountQuery { ids: vec![row.user_id], ..AccountQuery::default() };
        let found = state.accounts.find_many(query, authorized.viewer()).await?;
        encode::user(found.users.first().cloned().ok_or(RepoError::KeyNotFound)?, authorized.viewer())
    };
    Ok(GetPublicKeyResponse { key: Some(shown(row, owner, caller)) })
}

/// Adds an SSH key to the caller's account, or to the account that an administrator names.
async fn create_public_key(
    state: &AppState,
    authorized: Authorized,
    request: Request<CreatePublicKeyRequest>,
) -> Result<CreatePublicKeyResponse, RepoError> {
    let key = IdempotencyKey::of(&request, authorized.user()?.0, "CreatePublicKey")?;
    let (request, authorized) = (request.get_ref(), &authorized);
    let rebuild = |id: i64| async move {
        lookup::is_for_caller(authorized, &request.username)?;
        let owner = owner(state, authorized, &request.username).await?;
        let row = state.public_keys.find(UserId(owner.id), PublicKeyId(id)).await?.ok_or(RepoError::KeyNotFound)?;
        Ok(CreatePublicKeyResponse { key: Some(encode::public_key(row, owner)) })
    };
    once_or_rebuild(&state.db, key.as_ref(), rebuild, create(state, request, authorized, key.as_ref())).await
}

async fn create(
    state: &AppState,
    request: &CreatePublicKeyRequest,
    authorized: &Authorized,
    key: Option<&IdempotencyKey>,
) -> Result<CreatePublicKeyResponse, RepoError> {
    // Comes before the other fields.
    lookup::is_for_caller(authorized, &request.username)?;
    let (title, ssh_key) = parse_titled_key(&request.title, &request.key)?;
    let owner = owner(state, authorized, &request.username).await?;
    let user = UserId(owner.id);
    state.creation_limit.count(authorized.identity()?).await?;
    let now = state.clock.now_us();
    let mut tx = state.db.begin().await?;
    // A key added by an administrator is not bound to the administrator's token.
    let token = if authorized.capacity() == Capacity::Own { authorized.limited_token()? } else { None };
    let row =
        state.public_keys.insert(&mut tx, user, NewPublicKey { title: &title, key: &ssh_key, token }, now).await?;
    let bound = if token.is_some() { "token" } else { "user" };
    let details =
        [("title", row.title.clone()), ("fingerprint", row.fingerprint.clone()), ("bound_to", bound.to_owned())];
    change::record(&mut tx, authorized, Action::KeyAdd, Target::user(user, &owner.username), &details, now).await?;
    let id = row.id;
    let response = CreatePublicKeyResponse { key: Some(encode::public_key(row, owner)) };
    change::commit_with_subject(tx, key, response, &id, now).await
}

/// Removes an SSH key from the caller's account, or from the account that an administrator names.
async fn delete_public_key(
    state: &AppState,
    authorized: Authorized,
    request: Request<DeletePublicKeyRequest>,
) -> Result<DeletePublicKeyResponse, RepoError> {
    let key = IdempotencyKey::of(&request, authorized.user()?.0, "DeletePublicKey")?;
    once(&state.db, key.as_ref(), delete(state, request.get_ref(), &authorized, key.as_ref())).await
}

async fn delete(
    state: &AppState,
    request: &DeletePublicKeyRequest,
    authorized: &Authorized,
    key: Option<&IdempotencyKey>,
) -> Result<DeletePublicKeyResponse, RepoError> {
    let owner = Owner::user(state, authorized, &request.username).await?;
    let (id, now) = (PublicKeyId(request.key_id), state.clock.now_us());
    let mut tx = state.db.begin().await?;
    // A token limited to some repositories must not remove keys that open others.
    let only_of = if authorized.identity()?.is_limited { authorized.limited_token()? } else { None };
    let row = state.public_keys.delete(&mut tx, owner.id, id, only_of).await?.ok_or(RepoError::KeyNotFound)?;
    tx.require_version(Some(&versions::public_key(id, &row.title, &row.fingerprint)))?;
    let target = Target::user(owner.id, &owner.name);
    let details = [("title", row.title), ("fingerprint", row.fingerprint)];
    change::record(&mut tx, authorized, Action::KeyRemove, target, &details, now).await?;
    change::commit(tx, key, DeletePublicKeyResponse {}, now).await
}
