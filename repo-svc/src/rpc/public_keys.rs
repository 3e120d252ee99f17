//! SSH keys of users.

use ferrite_db::idempotency::{IdempotencyKey, once, once_or_rebuild};
use ferrite_proto::id::PublicKeyId;
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
use crate::store::{Action, NewPublicKey, Target};

authorized_service!(PublicKeyService {
    list_public_keys(ListPublicKeysRequest) -> ListPublicKeysResponse;
    get_public_key(GetPublicKeyRequest) -> GetPublicKeyResponse;
    create_public_key(CreatePublicKeyRequest, as_administrator) -> CreatePublicKeyResponse;
    delete_public_key(DeletePublicKeyRequest) -> DeletePublicKeyResponse;
});

async fn list_public_keys(
    state: &AppState,
    authorized: Authorized,
    request: Request<ListPublicKeysRequest>,
) -> Result<ListPublicKeysResponse, RepoError> {
    let request = request.into_inner();
    let user = lookup::user_or_caller(state, &authorized, &request.username).await?;
    let page = lookup::page(request.page, request.page_size);
    let (rows, total_count) = state.public_keys.list(user, page).await?;
    let mut keys: Vec<_> = rows.into_iter().map(encode::public_key).collect();
    if user != authorized.user()? {
        // Only the owner may see the names of tokens.
        keys.iter_mut().for_each(|key| key.token = None);
    }
    Ok(ListPublicKeysResponse { keys, total_count })
}

async fn get_public_key(
    state: &AppState,
    authorized: Authorized,
    request: Request<GetPublicKeyRequest>,
) -> Result<GetPublicKeyResponse, RepoError> {
    let id = PublicKeyId(request.get_ref().key_id);
    let row = state.public_keys.find(authorized.user()?, id).await?.ok_or(RepoError::KeyNotFound)?;
    version::tell(&versions::public_key(id, &row.title, &row.fingerprint));
    Ok(GetPublicKeyResponse { key: Some(encode::public_key(row)) })
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
        let owner = Owner::user(state, authorized, &request.username).await?;
        let row = state.public_keys.find(owner.id, PublicKeyId(id)).await?.ok_or(RepoError::KeyNotFound)?;
        Ok(CreatePublicKeyResponse { key: Some(encode::public_key(row)) })
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
    let owner = Owner::user(state, authorized, &request.username).await?;
    state.creation_limit.count(authorized.identity()?).await?;
    let now = state.clock.now_us();
    let mut tx = state.db.begin().await?;
    // A key added by an administrator is not bound to the administrator's token.
    let token = if authorized.capacity() == Capacity::Own { authorized.limited_token()? } else { None };
    let row =
        state.public_keys.insert(&mut tx, owner.id, NewPublicKey { title: &title, key: &ssh_key, token }, now).await?;
    let bound = if token.is_some() { "token" } else { "user" };
    let details =
        [("title", row.title.clone()), ("fingerprint", row.fingerprint.clone()), ("bound_to", bound.to_owned())];
    change::record(&mut tx, authorized, Action::KeyAdd, Target::user(owner.id, &owner.name), &details, now).await?;
    let id = row.id;
    let response = CreatePublicKeyResponse { key: Some(encode::public_key(row)) };
    change::commit_with_subject(tx, key, response, &id, now).await
}

async fn delete_public_key(
    state: &AppState,
    authorized: Authorized,
    request: Request<DeletePublicKeyRequest>,
) -> Result<DeletePublicKeyResponse, RepoError> {
    let key = IdempotencyKey::of(&request, authorized.user()?.0, "DeletePublicKey")?;
    let id = PublicKeyId(request.get_ref().key_id);
    once(&state.db, key.as_ref(), delete(state, id, &authorized, key.as_ref())).await
}

async fn delete(
    state: &AppState,
    id: PublicKeyId,
    authorized: &Authorized,
    key: Option<&IdempotencyKey>,
) -> Result<DeletePublicKeyResponse, RepoError> {
    let (user, now) = (authorized.user()?, state.clock.now_us());
    let mut tx = state.db.begin().await?;
    // A token limited to some repositories must not remove keys that open others.
    let only_of = if authorized.identity()?.is_limited { authorized.limited_token()? } else { None };
    let row = state.public_keys.delete(&mut tx, user, id, only_of).await?.ok_or(RepoError::KeyNotFound)?;
    tx.require_version(Some(&versions::public_key(id, &row.title, &row.fingerprint)))?;
    let target = Target::user(user, &authorized.identity()?.username);
    let details = [("title", row.title), ("fingerprint", row.fingerprint)];
    change::record(&mut tx, authorized, Action::KeyRemove, target, &details, now).await?;
    change::commit(tx, key, DeletePublicKeyResponse {}, now).await
}
