//! Checks HTTP Basic credentials: a user name or e-mail address with a password, or an access token
//! in either field. The authentication layer of the kit checks bearer tokens.

use ferrite_core::Secret;
use ferrite_proto::Scopes;
use ferrite_proto::grant::Credential;
use ferrite_proto::id::UserId;
use ferrite_proto::metadata;
use ferrite_proto::repo::{BasicCredential, Identity};
use ferrite_rpc::auth::{AuthError, Caller, TokenHash, has_token_form};
use sha2::{Digest, Sha256};
use tonic::Request;

use super::password::Passwords;
use super::throttle::{Attempt, Throttle};
use super::tokens::TokenAuthenticator;
use crate::error::RepoError;
use crate::model::{Email, User};
use crate::store::{AccountTable, Login};

/// Well above any user name or e-mail address.
const MAX_LOGIN_BYTES: usize = 1024;
const PASSWORD_DIGEST_BYTES: usize = 16;
/// Well above the text form of any IPv6 network.
const MAX_ADDRESS_BYTES: usize = 64;

/// The client's address or network, by which failed sign-ins are counted; empty if unknown.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClientAddress(String);

impl ClientAddress {
    /// Reads the address from the request's metadata if the gateway of this installation sent it.
    /// Other callers could forge it, so they all share one counter under the empty address.
    pub(crate) fn of<T>(request: &Request<T>) -> Self {
        Self(Caller::of(request).gateway_text(request.metadata(), metadata::CLIENT, MAX_ADDRESS_BYTES))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

pub(crate) struct CredentialChecker {
    accounts: AccountTable,
    tokens: TokenAuthenticator,
    passwords: Passwords,
    throttle: Throttle,
}

#[derive(Clone, Debug)]
pub(crate) struct PasswordProof {
    /// The account, with every scope.
    pub(crate) identity: Identity,
    /// The hash that the password was checked against. A transaction compares it again if it
    /// depends on the password being unchanged.
    pub(crate) password_hash: Secret,
}

impl CredentialChecker {
    pub(crate) fn new(
        accounts: AccountTable,
        tokens: TokenAuthenticator,
        passwords: Passwords,
        throttle: Throttle,
    ) -> Self {
        Self { accounts, tokens, passwords, throttle }
    }

    /// Returns the identity of a git client and the id of its credential: a token as user name, a
    /// token as password, or a password.
    ///
    /// Tokens are looked up first because that is cheaper than hashing a password. No user name or
    /// e-mail address looks like a token, so the order changes nothing else.
    pub(crate) async fn check_basic(
        &self,
        credential: &BasicCredential,
        address: &ClientAddress,
    ) -> Result<(Identity, Credential), RepoError> {
        for text in [&credential.username, &credential.password] {
            if has_token_form(text)
                && let Some(identity) = self.tokens.identity(&TokenHash::of(text)).await?
            {
                let credential = Credential::Token(identity.token_id);
                return Ok((identity, credential));
            }
        }
        if has_token_form(&credential.username) {
            return Err(AuthError::BadCredentials.into());
        }
        let PasswordProof { identity, password_hash } = self.check_password(credential, address).await?;
        let credential =
            Credential::Password { user: identity.user_id, digest: password_digest(password_hash.expose()) };
        Ok((identity, credential))
    }

    /// Fails if the token was deleted or has expired, is an idle session, or its owner is disabled.
    pub(crate) async fn recheck_token(&self, token_id: i64) -> Result<Identity, RepoError> {
        let identity = self.tokens.identity_by_id(token_id).await?;
        identity.ok_or_else(|| AuthError::BadCredentials.into())
    }

    /// Fails if the account is disabled or gone.
    pub(crate) async fn recheck_account(&self, user: UserId) -> Result<Identity, RepoError> {
        let found = self.accounts.login_by_id(user).await?.filter(|found| found.is_active);
        found.map(|found| identity_of(found.user)).ok_or_else(|| AuthError::BadCredentials.into())
    }

    /// Returns the identity of an account whose password was checked before, without hashing again.
    /// Fails if the password has changed, or the account is disabled or gone.
    pub(crate) async fn recheck_password(&self, user: UserId, digest: &str) -> Result<Identity, RepoError> {
        let found = self.accounts.login_by_id(user).await?.filter(|found| found.is_active);
        let is_same =
            |found: &Login| found.password_hash.as_deref().is_some_and(|hash| password_digest(hash) == digest);
        found.filter(is_same).map(|found| identity_of(found.user)).ok_or_else(|| AuthError::BadCredentials.into())
    }

    /// Counts a session that the owner of an account begins from an address.
    pub(crate) async fn count_session(&self, user: UserId, address: &ClientAddress) -> Result<(), RepoError> {
        self.throttle.count_session(user, address.as_str()).await
    }

    pub(crate) async fn check_password(
        &self,
        credential: &BasicCredential,
        address: &ClientAddress,
    ) -> Result<PasswordProof, RepoError> {
        let login = credential.username.as_str();
        let is_possible = !login.is_empty() && login.len() <= MAX_LOGIN_BYTES && !login.contains('\0');
        let key = if is_possible { Email::lookup_key(login) } else { String::new() };
        let found = if is_possible { self.accounts.login(login).await? } else { None };
        let (hash, user) = match found {
            Some(found) if found.is_active => (found.password_hash, Some(found.user)),
            Some(_) | None => (None, None),
        };
        let address = address.as_str().to_owned();
        let attempt = Attempt { login: key, address, user: user.as_ref().map(|user| user.id) };
        self.throttle.check(&attempt).await?;
        let permit = match self.passwords.acquire_for(&attempt.address).await {
            Err(RepoError::Busy) if self.throttle.is_known(&attempt).await => self.passwords.acquire_known().await?,
            acquired => acquired?,
        };
        // Check again: other attempts may have failed while this one waited, so sending many at
        // once buys no extra guesses.
        self.throttle.check(&attempt).await?;
        let is_right = permit.verify(&Secret::new(credential.password.as_str()), hash.clone()).await?;
        let (Some(user), Some(password_hash), true) = (user, hash, is_right) else {
            // A token used as a password has most likely expired or been revoked, and its client
            // keeps retrying. Do not count it: guessing a token is hopeless.
            if !has_token_form(&credential.password) {
                self.throttle.failed(&attempt).await;
            }
            return Err(AuthError::BadCredentials.into());
        };
        self.throttle.succeeded(&attempt).await;
        Ok(PasswordProof { identity: identity_of(user), password_hash: Secret::new(password_hash) })
    }
}

fn identity_of(user: User) -> Identity {
    Identity {
        user_id: user.id.0,
        username: user.username,
        full_name: user.full_name,
        email: user.email,
        is_admin: user.is_admin,
        scopes: Scopes::all().to_proto(),
        ..Identity::default()
    }
}

/// Returns a digest that reveals neither the stored hash nor the password.
fn password_digest(hash: &str) -> String {
    hex::encode(&Sha256::digest(hash.as_bytes())[..PASSWORD_DIGEST_BYTES])
}
