//! What HTTP Basic carries: a user name or an address with a password, or a token in either place.

use ferrite_kit::Secret;
use ferrite_kit::auth::{AuthError, TokenHash};
use ferrite_proto::repo::{BasicCredential, Identity};

use crate::RepoError;
use crate::core::Core;
use crate::model::Email;

/// Longer than any user name or address.
const LOGIN_MAX_BYTES: usize = 1024;

/// The identity that a credential of git proves: a token as user name, a token as password, or a password.
///
/// A token is looked up before a password is hashed, because that is cheap. No user name or address has the form of a token,
/// and no password is any token's twin, so the order changes nothing else.
pub(crate) async fn basic(core: &Core, credential: &BasicCredential) -> Result<Identity, RepoError> {
    for text in [&credential.username, &credential.password] {
        if is_token(text)
            && let Some(identity) = core.tokens.identity(&TokenHash::of(text)).await?
        {
            return Ok(identity);
        }
    }
    password(core, credential).await
}

/// The identity that a password proves.
pub(crate) async fn password(core: &Core, credential: &BasicCredential) -> Result<Identity, RepoError> {
    let login = credential.username.as_str();
    let is_possible = !login.is_empty() && login.len() <= LOGIN_MAX_BYTES && !login.contains('\0');
    let key = if is_possible { Email::lookup_key(login) } else { String::new() };
    core.throttle.check(&key, core.clock.now_us())?;
    let found = if is_possible { core.accounts.login(login).await? } else { None };
    let (hash, user) = match found {
        Some(found) if found.is_active => (found.password_hash, Some(found.user)),
        Some(_) | None => (None, None),
    };
    let is_right = core.passwords.verify(&Secret::new(credential.password.as_str()), hash).await?;
    match user.filter(|_| is_right) {
        Some(user) => {
            core.throttle.succeeded(&key);
            Ok(Identity {
                user_id: user.id.0,
                username: user.username,
                full_name: user.full_name,
                email: user.email,
                is_admin: user.is_admin,
                token_id: 0,
            })
        }
        None => {
            core.throttle.failed(&key, core.clock.now_us());
            Err(AuthError::BadCredentials.into())
        }
    }
}

fn is_token(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}
