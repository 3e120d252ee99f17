//! `SetEmailVerification`: an administrator makes an address a verified one of an account, or no longer so.

use ferrite_kit::idempotency::{IdempotencyKey, once};
use ferrite_proto::repo::{SetEmailVerificationRequest, SetEmailVerificationResponse};
use tonic::Request;

use super::super::change;
use crate::error::RepoError;
use crate::model::{Email, lookup_key};
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::{Action, Target, lock_user, unverify_email, verify_email};

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<SetEmailVerificationRequest>,
) -> Result<SetEmailVerificationResponse, RepoError> {
    let key = IdempotencyKey::of(&request, permit.user()?.0, "SetEmailVerification")?;
    once(&state.db, key.as_ref(), set(state, request.get_ref(), &permit, key.as_ref())).await
}

async fn set(
    state: &AppState,
    request: &SetEmailVerificationRequest,
    permit: &Permit,
    key: Option<&IdempotencyKey>,
) -> Result<SetEmailVerificationResponse, RepoError> {
    let name_key = lookup_key(&request.username).ok_or(RepoError::UserNotFound)?;
    let now = state.clock.now_us();
    let mut tx = state.db.begin().await?;
    let user = lock_user(&mut tx, &name_key).await?.ok_or(RepoError::UserNotFound)?;
    let email = Email::parse(&request.email, "email")?;
    let (is_changed, action) = if request.is_verified {
        (verify_email(&mut tx, user.id(), &email, now).await?, Action::EmailVerify)
    } else {
        if email.key() == Email::lookup_key(&user.email) {
            return Err(RepoError::field("email", "invalid", "must not be the primary address of the account"));
        }
        (unverify_email(&mut tx, user.id(), &email).await?, Action::EmailUnverify)
    };
    if is_changed {
        let (target, details) = (Target::user(user.id(), &user.name), [("email", email.as_str().to_owned())]);
        change::record(&mut tx, permit, action, target, &details, now).await?;
    }
    change::commit(tx, key, SetEmailVerificationResponse {}, now).await
}
