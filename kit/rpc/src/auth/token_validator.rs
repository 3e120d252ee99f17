//! Validation of access tokens.
//!
//! Not here: scopes and permissions of a token, which repo-svc checks.

use std::sync::Arc;

use ferrite_core::Clock;
use ferrite_proto::repo::Identity;

use super::error::AuthError;
use super::token_authority::TokenAuthority;
use super::token_cache::TokenCache;
use super::token_hash::TokenHash;

/// Validates access tokens: by the cache in Redis if there is one, else by asking the authority.
#[derive(Clone)]
pub struct TokenValidator {
    cache: Option<TokenCache>,
    authority: Arc<dyn TokenAuthority>,
    clock: Clock,
}

impl TokenValidator {
    /// Returns a validator that asks `authority` for tokens that are not in `cache`.
    #[must_use]
    pub fn new(cache: Option<TokenCache>, authority: Arc<dyn TokenAuthority>, clock: Clock) -> Self {
        Self { cache, authority, clock }
    }

    /// Returns the identity of a token.
    ///
    /// # Errors
    /// [`AuthError::BadCredentials`] when the token is not valid, [`AuthError::Unavailable`] when the authority does not respond.
    pub async fn validate(&self, token: &str) -> Result<Identity, AuthError> {
        if !has_token_form(token) {
            return Err(AuthError::BadCredentials);
        }
        let hash = TokenHash::of(token);
        if let Some(cache) = &self.cache
            && let Some(identity) = cache.get(&hash).await
        {
            return self.unexpired(identity);
        }
        // repo-svc caches its response: only its signature is believed.
        let identity = self.authority.authenticate(token).await?.ok_or(AuthError::BadCredentials)?;
        self.unexpired(identity)
    }

    /// Returns the identity, unless its token has expired since it was cached.
    fn unexpired(&self, identity: Identity) -> Result<Identity, AuthError> {
        let is_expired = identity.expire_us != 0 && identity.expire_us <= self.clock.now_us();
        if is_expired { Err(AuthError::BadCredentials) } else { Ok(identity) }
    }
}

/// Returns whether a text has the form of an access token: 40 lower-case hexadecimal digits.
#[must_use]
pub fn has_token_form(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}
