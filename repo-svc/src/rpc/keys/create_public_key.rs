//! `CreatePublicKey`: an SSH key of the caller, or of the account that an administrator names.

use ferrite_kit::auth::AuthError;
use ferrite_kit::idempotency::{IdempotencyKey, once};
use ferrite_proto::repo::{CreatePublicKeyRequest, CreatePublicKeyResponse};
use tonic::Request;

use super::super::{change, encode, lookup};
use crate::access::Capacity;
use crate::error::RepoError;
use crate::model::{SshKey, Title, Violations};
use crate::rpc::permit::{ActsAs, Permit};
use crate::state::AppState;
use crate::store::{Action, NewPublicKey, Target};

impl ActsAs for CreatePublicKeyRequest {
    fn capacity(&self) -> Capacity {
        if self.as_administrator { Capacity::Administrator } else { Capacity::Own }
    }
}

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<CreatePublicKeyRequest>,
) -> Result<CreatePublicKeyResponse, RepoError> {
    let key = IdempotencyKey::of(&request, permit.user()?.0, "CreatePublicKey")?;
    once(&state.db, key.as_ref(), create(state, request.get_ref(), &permit, key.as_ref())).await
}

/// Returns whether the key is for the caller's own account.
///
/// # Errors
/// [`AuthError::AdminRequired`] for another account, unless the caller acts as an administrator.
fn is_own(request: &CreatePublicKeyRequest, permit: &Permit) -> Result<bool, AuthError> {
    let identity = permit.identity()?;
    if request.username.is_empty() || request.username.eq_ignore_ascii_case(&identity.username) {
        return Ok(true);
    }
    if permit.capacity() == Capacity::Administrator { Ok(false) } else { Err(AuthError::AdminRequired) }
}

async fn create(
    state: &AppState,
    request: &CreatePublicKeyRequest,
    permit: &Permit,
    key: Option<&IdempotencyKey>,
) -> Result<CreatePublicKeyResponse, RepoError> {
    let is_own = is_own(request, permit)?;
    let mut violations = Violations::default();
    let title = violations.take(Title::parse(&request.title, "title"));
    let ssh_key = violations.take(SshKey::parse(&request.key, "key"));
    let (Some(title), Some(ssh_key)) = (title, ssh_key) else { return Err(violations.into_error()) };
    let (user, username) = if is_own {
        (permit.user()?, permit.identity()?.username.clone())
    } else {
        let user = lookup::user(state, &request.username).await?;
        (user.id, user.username)
    };
    state.creation_limit.count(permit.identity()?).await?;
    let now = state.clock.now_us();
    let mut tx = state.db.begin().await?;
    // An administrator gives the user a key of its own.
    let token = if permit.capacity() == Capacity::Own { permit.limited_token()? } else { None };
    let row =
        state.public_keys.insert(&mut tx, user, NewPublicKey { title: &title, key: &ssh_key, token }, now).await?;
    let bound = if token.is_some() { "token" } else { "user" };
    let details =
        [("title", row.title.clone()), ("fingerprint", row.fingerprint.clone()), ("bound_to", bound.to_owned())];
    change::record(&mut tx, permit, Action::KeyAdd, Target::user(user, &username), &details, now).await?;
    change::commit(tx, key, CreatePublicKeyResponse { key: Some(encode::public_key(row)) }, now).await
}
