//! Validates access tokens.

use std::sync::Arc;

use async_trait::async_trait;
use ferrite_core::Clock;
use ferrite_proto::repo::access_service_client::AccessServiceClient;
use ferrite_proto::repo::{AuthenticateRequest, Identity};
use tonic::Code;

use super::error::AuthError;
use super::token_cache::{TokenCache, TokenHash};
use crate::grpc::Channel;

/// Knows access tokens: repo-svc, in its own process or over gRPC.
#[async_trait]
pub trait TokenAuthority: Send + Sync + 'static {
    /// Returns the identity of a token; `None` if the token is invalid.
    ///
    /// # Errors
    /// [`AuthError::Unavailable`] if repo-svc is unreachable or fails.
    async fn authenticate(&self, token: &str) -> Result<Option<Identity>, AuthError>;
}

#[async_trait]
impl TokenAuthority for Channel {
    async fn authenticate(&self, token: &str) -> Result<Option<Identity>, AuthError> {
        let request = AuthenticateRequest { token: token.to_owned() };
        match AccessServiceClient::new(self.clone()).authenticate(request).await {
            Ok(response) => Ok(response.into_inner().identity),
            Err(status) if status.code() == Code::Unauthenticated => Ok(None),
            Err(status) => {
                tracing::warn!(code = ?status.code(), "cannot ask repo-svc about a token");
                Err(AuthError::Unavailable)
            }
        }
    }
}

/// Validates access tokens with the cache in Redis, if any, or by asking the authority.
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
    /// [`AuthError::BadCredentials`] if the token is invalid, [`AuthError::Unavailable`] if the
    /// authority does not respond.
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
        // repo-svc caches its response itself, because entries need its signature.
        let identity = self.authority.authenticate(token).await?.ok_or(AuthError::BadCredentials)?;
        self.unexpired(identity)
    }

    /// Returns the identity unless its token has expired since it was cached.
    fn unexpired(&self, identity: Identity) -> Result<Identity, AuthError> {
        let is_expired = identity.expire_us != 0 && identity.expire_us <= self.clock.now_us();
        if is_expired { Err(AuthError::BadCredentials) } else { Ok(identity) }
    }
}

/// Whether a text looks like an access token: 40 lowercase hexadecimal digits.
#[must_use]
pub fn has_token_form(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}
