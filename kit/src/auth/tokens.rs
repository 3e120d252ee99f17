use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use ferrite_proto::repo::access_service_client::AccessServiceClient;
use ferrite_proto::repo::{AuthenticateRequest, Identity};
use sha2::{Digest, Sha256};
use tonic::Code;

use super::{AuthError, TokenCache};
use crate::Clock;
use crate::grpc::Channel;

/// The SHA-256 of a token: the only form in which one is stored or compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TokenHash(pub [u8; 32]);

impl TokenHash {
    /// Hashes a token.
    #[must_use]
    pub fn of(token: &str) -> Self {
        Self(Sha256::digest(token.as_bytes()).into())
    }

    /// 64 lower-case hexadecimal digits.
    #[must_use]
    pub fn to_hex(&self) -> String {
        hex::encode(self.0)
    }
}

/// Who knows which tokens exist: repo-svc, in its own process or over gRPC.
#[async_trait]
pub trait TokenAuthority: Send + Sync + 'static {
    /// The identity behind a token, or `None` when it is not valid.
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

/// Validates tokens the same way in every service: by Redis if there is one, else by asking repo-svc.
#[derive(Clone)]
pub struct Tokens {
    cache: Option<TokenCache>,
    authority: Arc<dyn TokenAuthority>,
    clock: Clock,
}

impl std::fmt::Debug for Tokens {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Tokens").field("cache", &self.cache).finish_non_exhaustive()
    }
}

impl Tokens {
    /// Validation that asks `authority` for what `cache` does not know.
    #[must_use]
    pub fn new(cache: Option<TokenCache>, authority: Arc<dyn TokenAuthority>, clock: Clock) -> Self {
        Self { cache, authority, clock }
    }

    /// The identity behind a token.
    ///
    /// # Errors
    /// [`AuthError::BadCredentials`] when it is not valid, [`AuthError::Unavailable`] when nobody can say.
    pub async fn validate(&self, token: &str) -> Result<Identity, AuthError> {
        if !is_token(token) {
            return Err(AuthError::BadCredentials);
        }
        let hash = TokenHash::of(token);
        if let Some(cache) = &self.cache
            && let Some(identity) = cache.get(&hash).await
        {
            return self.unexpired(identity);
        }
        let asked = Instant::now();
        let identity = self.authority.authenticate(token).await?.ok_or(AuthError::BadCredentials)?;
        if let Some(cache) = &self.cache {
            cache.put_fresh(&hash, &identity, asked).await;
        }
        self.unexpired(identity)
    }

    /// The identity, unless the token behind it has expired since it was remembered.
    fn unexpired(&self, identity: Identity) -> Result<Identity, AuthError> {
        let is_expired = identity.expire_us != 0 && identity.expire_us <= self.clock.now_us();
        if is_expired { Err(AuthError::BadCredentials) } else { Ok(identity) }
    }
}

/// Whether a text can be a token at all: 40 lower-case hexadecimal digits.
fn is_token(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}
