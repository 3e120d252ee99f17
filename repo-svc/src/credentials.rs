//! What HTTP Basic carries: a user name or an address with a password, or a token in either place.

use ferrite_kit::Secret;
use ferrite_kit::auth::{AuthError, Caller, TokenHash};
use ferrite_proto::repo::{BasicCredential, Identity};
use ferrite_proto::{Scopes, metadata};
use tonic::Request;

use crate::RepoError;
use crate::core::Core;
use crate::model::Email;
use crate::throttle::Attempt;

/// Longer than any user name or address.
const LOGIN_MAX_BYTES: usize = 1024;
/// Longer than any address in text form.
const ORIGIN_MAX_BYTES: usize = 64;

/// Where a credential came from, for counting wrong ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct Origin(String);

impl Origin {
    /// What the gateway says about its client. Everybody else's word about it counts for nothing: those share one place.
    pub(crate) fn of<T>(request: &Request<T>) -> Self {
        let is_ours = Caller::of(request).service.is_some();
        let said = request.metadata().get(metadata::CLIENT).filter(|_| is_ours).and_then(|value| value.to_str().ok());
        Self(said.filter(|said| said.len() <= ORIGIN_MAX_BYTES).unwrap_or_default().to_owned())
    }

    /// An address, or the network of one; empty when nobody says.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// The identity that a credential of git proves: a token as user name, a token as password, or a password.
///
/// A token is looked up before a password is hashed, because that is cheap. No user name or address has the form of a token,
/// and no password is any token's twin, so the order changes nothing else.
pub(crate) async fn basic(core: &Core, credential: &BasicCredential, origin: &Origin) -> Result<Identity, RepoError> {
    for text in [&credential.username, &credential.password] {
        if is_token(text)
            && let Some(identity) = core.identity(&TokenHash::of(text)).await?
        {
            return Ok(identity);
        }
    }
    if is_token(&credential.username) {
        return Err(AuthError::BadCredentials.into());
    }
    password(core, credential, origin).await.map(|proven| proven.identity)
}

/// What a password proved.
#[derive(Clone, Debug)]
pub(crate) struct Proven {
    /// Whose it is.
    pub(crate) identity: Identity,
    /// What it was checked against, to be checked again by those who must know that it still holds.
    pub(crate) password_hash: Secret,
}

/// The identity that a password proves.
pub(crate) async fn password(core: &Core, credential: &BasicCredential, origin: &Origin) -> Result<Proven, RepoError> {
    let login = credential.username.as_str();
    let is_possible = !login.is_empty() && login.len() <= LOGIN_MAX_BYTES && !login.contains('\0');
    let key = if is_possible { Email::lookup_key(login) } else { String::new() };
    let found = if is_possible { core.accounts.login(login).await? } else { None };
    let (hash, user) = match found {
        Some(found) if found.is_active => (found.password_hash, Some(found.user)),
        Some(_) | None => (None, None),
    };
    let attempt = Attempt { login: key, origin: origin.0.clone(), user: user.as_ref().map(|user| user.id) };
    core.throttle.check(&attempt).await?;
    let turn = core.passwords.turn().await?;
    // Once more: many may have failed while this one waited, and trying them all at once must not buy more guesses.
    core.throttle.check(&attempt).await?;
    let is_right = turn.verify(&Secret::new(credential.password.as_str()), hash.clone()).await?;
    let (Some(user), Some(password_hash), true) = (user, hash, is_right) else {
        // A token that was revoked or has expired, most likely, used by a machine that will go on trying. Guessing one is hopeless.
        if !is_token(&credential.password) {
            core.throttle.failed(&attempt).await;
        }
        return Err(AuthError::BadCredentials.into());
    };
    core.throttle.succeeded(&attempt).await;
    let identity = Identity {
        user_id: user.id.0,
        username: user.username,
        full_name: user.full_name,
        email: user.email,
        is_admin: user.is_admin,
        scopes: Scopes::all().to_proto(),
        ..Identity::default()
    };
    Ok(Proven { identity, password_hash: Secret::new(password_hash) })
}

fn is_token(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}
