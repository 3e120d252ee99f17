//! `CreatePublicKey`: an SSH key of the caller, or of the account that an administrator names.

use ferrite_kit::idempotency::{IdempotencyKey, once_or_rebuild};
use ferrite_proto::id::PublicKeyId;
use ferrite_proto::repo::{CreatePublicKeyRequest, CreatePublicKeyResponse};
use tonic::Request;

use super::super::lookup::{self, Owner};
use super::super::{change, encode};
use crate::access::Capacity;
use crate::error::RepoError;
use crate::model::parse_titled_key;
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::{Action, NewPublicKey, Target};

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<CreatePublicKeyRequest>,
) -> Result<CreatePublicKeyResponse, RepoError> {
    let key = IdempotencyKey::of(&request, permit.user()?.0, "CreatePublicKey")?;
    let (request, permit) = (request.get_ref(), &permit);
    let rebuild = |id: i64| async move {
        let owner = Owner::user(state, permit, &request.username).await?;
        let row = state.public_keys.find(owner.id, PublicKeyId(id)).await?.ok_or(RepoError::KeyNotFound)?;
        Ok(CreatePublicKeyResponse { key: Some(encode::public_key(row)) })
    };
    once_or_rebuild(&state.db, key.as_ref(), rebuild, create(state, request, permit, key.as_ref())).await
}

async fn create(
    state: &AppState,
    request: &CreatePublicKeyRequest,
    permit: &Permit,
    key: Option<&IdempotencyKey>,
) -> Result<CreatePublicKeyResponse, RepoError> {
    // Before the other fields are checked.
    lookup::is_for_caller(permit, &request.username)?;
    let (title, ssh_key) = parse_titled_key(&request.title, &request.key)?;
    let owner = Owner::user(state, permit, &request.username).await?;
    state.creation_limit.count(permit.identity()?).await?;
    let now = state.clock.now_us();
    let mut tx = state.db.begin().await?;
    // An administrator gives the user a key of its own.
    let token = if permit.capacity() == Capacity::Own { permit.limited_token()? } else { None };
    let row =
        state.public_keys.insert(&mut tx, owner.id, NewPublicKey { title: &title, key: &ssh_key, token }, now).await?;
    let bound = if token.is_some() { "token" } else { "user" };
    let details =
        [("title", row.title.clone()), ("fingerprint", row.fingerprint.clone()), ("bound_to", bound.to_owned())];
    change::record(&mut tx, permit, Action::KeyAdd, Target::user(owner.id, &owner.name), &details, now).await?;
    let id = row.id;
    let answer = CreatePublicKeyResponse { key: Some(encode::public_key(row)) };
    change::commit_with_subject(tx, key, answer, &id, now).await
}
