use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use ferrite_core::Clock;
use ferrite_db::DbError;
use ferrite_proto::id::TokenId;
use ferrite_proto::repo::Identity;
use ferrite_rpc::auth::{AuthError, TokenAuthority, TokenCacheWriter, TokenHash};
use parking_lot::Mutex;

use crate::store::TokenTable;

/// Tokens whose last use is kept in memory. When it is full, uses of other tokens are not recorded.
const MAX_NOTED_TOKENS: usize = 10_000;

/// Authenticates tokens from this service's own table and records their use. Other services ask by
/// RPC.
#[derive(Clone)]
pub(crate) struct TokenAuthenticator {
    tokens: TokenTable,
    last_use: Arc<LastUse>,
    cache: Option<TokenCacheWriter>,
    clock: Clock,
}

impl TokenAuthenticator {
    pub(crate) fn new(
        tokens: TokenTable,
        last_use: Arc<LastUse>,
        cache: Option<TokenCacheWriter>,
        clock: Clock,
    ) -> Self {
        Self { tokens, last_use, cache, clock }
    }

    /// `None` if there is no such token, it has expired, or its owner is disabled.
    pub(crate) async fn identity(&self, hash: &TokenHash) -> Result<Option<Identity>, DbError> {
        let now = self.clock.now_us();
        let identity = self.tokens.identity(hash, now).await?;
        if let Some(identity) = &identity {
            self.last_use.note(identity.token_id, now);
        }
        Ok(identity)
    }

    /// Like [`TokenAuthenticator::identity`], and caches the identity for all processes.
    pub(crate) async fn identity_for_cache(&self, hash: &TokenHash) -> Result<Option<Identity>, DbError> {
        match &self.cache {
            Some(cache) => cache.fill(hash, self.identity(hash)).await,
            None => self.identity(hash).await,
        }
    }

    /// Like [`TokenAuthenticator::identity`], but not recorded as a use.
    pub(crate) async fn identity_by_id(&self, token_id: i64) -> Result<Option<Identity>, DbError> {
        self.tokens.identity_by_id(TokenId(token_id), self.clock.now_us()).await
    }
}

#[async_trait]
impl TokenAuthority for TokenAuthenticator {
    async fn authenticate(&self, token: &str) -> Result<Option<Identity>, AuthError> {
        self.identity_for_cache(&TokenHash::of(token)).await.map_err(|error| {
            error.log("a token lookup");
            AuthError::Unavailable
        })
    }
}

/// Last uses by token id, kept in memory until a background task writes them, so that a read
/// request writes nothing.
#[derive(Debug, Default)]
pub(crate) struct LastUse(Mutex<BTreeMap<i64, i64>>);

impl LastUse {
    pub(crate) fn note(&self, token_id: i64, now_us: i64) {
        let mut uses = self.0.lock();
        if let Some(used_us) = uses.get_mut(&token_id) {
            *used_us = now_us.max(*used_us);
        } else if uses.len() < MAX_NOTED_TOKENS {
            uses.insert(token_id, now_us);
        }
    }

    /// Removes and returns the recorded uses: token ids and times in microseconds.
    pub(crate) fn take(&self) -> Vec<(i64, i64)> {
        let uses = std::mem::take(&mut *self.0.lock());
        uses.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_use_is_kept_and_taken_once() {
        let uses = LastUse::default();
        for (token, time) in [(2, 10), (1, 30), (2, 20), (1, 5)] {
            uses.note(token, time);
        }
        assert_eq!(uses.take(), [(1, 30), (2, 20)]);
        assert_eq!(uses.take(), []);
    }

    #[test]
    fn memory_is_bounded() {
        let uses = LastUse::default();
        (0..MAX_NOTED_TOKENS as i64 + 50).for_each(|token| uses.note(token, 1));
        uses.note(0, 2);
        let taken = uses.take();
        assert_eq!((taken.len(), taken[0]), (MAX_NOTED_TOKENS, (0, 2)));
    }
}
