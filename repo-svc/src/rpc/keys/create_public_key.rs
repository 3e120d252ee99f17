//! `CreatePublicKey`: an SSH key of the caller, or of the account that an administrator names.

use ferrite_kit::idempotency::{IdempotencyKey, once};
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
    once(&state.db, key.as_ref(), create(state, request.get_ref(), &permit, key.as_ref())).await
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
    change::commit(tx, key, CreatePublicKeyResponse { key: Some(encode::public_key(row)) }, now).await
}
