use std::sync::Arc;

use async_trait::async_trait;
use ferrite_core::Clock;
use ferrite_db::DbError;
use ferrite_proto::id::TokenId;
use ferrite_proto::repo::Identity;
use ferrite_rpc::auth::{AuthError, TokenAuthority, TokenCacheWriter, TokenHash};

use super::last_use::LastUse;
use crate::store::TokenTable;

/// Looks up access tokens in this service's own table and notes that they were used. The other services ask it by RPC.
#[derive(Clone)]
pub(crate) struct TokenAuthenticator {
    tokens: TokenTable,
    last_use: Arc<LastUse>,
    cache: Option<TokenCacheWriter>,
    clock: Clock,
}

impl TokenAuthenticator {
    /// Creates an authenticator over the tokens of `tokens`, which notes uses in `last_use` and writes to `cache`.
    pub(crate) fn new(
        tokens: TokenTable,
        last_use: Arc<LastUse>,
        cache: Option<TokenCacheWriter>,
        clock: Clock,
    ) -> Self {
        Self { tokens, last_use, cache, clock }
    }

    /// Returns the identity behind the token with this hash, or `None` if there is no such token, it has expired, or its owner is
    /// disabled.
    pub(crate) async fn identity(&self, hash: &TokenHash) -> Result<Option<Identity>, DbError> {
        let now = self.clock.now_us();
        let identity = self.tokens.identity(hash, now).await?;
        if let Some(identity) = &identity {
            self.last_use.note(identity.token_id, now);
        }
        Ok(identity)
    }

    /// Returns what [`TokenAuthenticator::identity`] returns, and caches it for all processes.
    pub(crate) async fn identity_for_cache(&self, hash: &TokenHash) -> Result<Option<Identity>, DbError> {
        match &self.cache {
            Some(cache) => cache.fill(hash, self.identity(hash)).await,
            None => self.identity(hash).await,
        }
    }

    /// Returns the identity behind the token with this id, as [`TokenAuthenticator::identity`]; not noted as a use.
    pub(crate) async fn identity_by_id(&self, token_id: i64) -> Result<Option<Identity>, DbError> {
        self.tokens.identity_by_id(TokenId(token_id), self.clock.now_us()).await
    }
}

#[async_trait]
impl TokenAuthority for TokenAuthenticator {
    async fn authenticate(&self, token: &str) -> Result<Option<Identity>, AuthError> {
        self.identity_for_cache(&TokenHash::of(token)).await.map_err(|error| {
            error.log("the look for a token");
            AuthError::Unavailable
        })
    }
}
