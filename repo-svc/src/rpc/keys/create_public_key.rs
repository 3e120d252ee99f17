use ferrite_kit::auth::AuthError;
use ferrite_kit::idempotency::{IdempotencyKey, once};
use ferrite_proto::repo::{CreatePublicKeyRequest, CreatePublicKeyResponse};
use tonic::Request;

use super::super::{change, lookup};
use crate::RepoError;
use crate::access::{Acting, Mode, Permit};
use crate::core::Core;
use crate::model::{KeyTitle, SshKey, Violations};
use crate::store::{Action, Target};

impl Mode for CreatePublicKeyRequest {
    fn acting(&self) -> Acting {
        if self.as_administrator { Acting::AsAdministrator } else { Acting::Itself }
    }
}

pub(super) async fn handle(
    core: &Core,
    permit: Permit,
    request: Request<CreatePublicKeyRequest>,
) -> Result<CreatePublicKeyResponse, RepoError> {
    let key = IdempotencyKey::of(&request, permit.user()?.0, "CreatePublicKey")?;
    once(&core.db, key.as_ref(), create(core, request.get_ref(), &permit, key.as_ref())).await
}

/// Whether the key is to be of the caller's own account.
fn is_own(request: &CreatePublicKeyRequest, permit: &Permit) -> Result<bool, AuthError> {
    let identity = permit.identity()?;
    if request.username.is_empty() || request.username.eq_ignore_ascii_case(&identity.username) {
        return Ok(true);
    }
    if permit.acting() == Acting::AsAdministrator { Ok(false) } else { Err(AuthError::AdminRequired) }
}

async fn create(
    core: &Core,
    request: &CreatePublicKeyRequest,
    permit: &Permit,
    key: Option<&IdempotencyKey>,
) -> Result<CreatePublicKeyResponse, RepoError> {
    let is_own = is_own(request, permit)?;
    let mut violations = Violations::default();
    let title = violations.take(KeyTitle::parse(&request.title, "title"));
    let ssh_key = violations.take(SshKey::parse(&request.key, "key"));
    let (Some(title), Some(ssh_key)) = (title, ssh_key) else { return Err(violations.into_error()) };
    let (user, username) = if is_own {
        (permit.user()?, permit.identity()?.username.clone())
    } else {
        let user = lookup::user(core, &request.username).await?;
        (user.id, user.username)
    };
    core.count_creation(permit.identity()?).await?;
    let now = core.clock.now_us();
    let mut tx = core.db.begin().await?;
    let row = core.public_keys.insert(&mut tx, user, &title, &ssh_key, now).await?;
    let details = [("title", row.title.clone()), ("fingerprint", row.fingerprint.clone())];
    change::record(&mut tx, permit, Action::KeyAdd, Target::user(user, &username), &details, now).await?;
    change::commit(tx, key, CreatePublicKeyResponse { key: Some(super::encode(row)) }, now).await
}
