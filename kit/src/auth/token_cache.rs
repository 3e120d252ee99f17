//! The cache of validated access tokens in Redis.
//!
//! Not here: asking repo-svc after a miss, which the validator does.

use std::time::{Duration, Instant};

use ferrite_proto::repo::Identity;
use prost::Message;

use super::token_hash::TokenHash;
use crate::clock::Clock;
use crate::redis::{RESPONSE_TIMEOUT, RedisClient, millis};
use crate::secret::Secret;

/// An answer of repo-svc that took longer than this is not cached: the token may have been revoked meanwhile, and the tombstone of
/// that have expired.
const MAX_ANSWER_AGE: Duration = Duration::from_secs(1);
/// Longest time for which an identity is cached.
const MAX_LIFETIME: Duration = Duration::from_secs(3600);
/// Value of a token that was revoked: a process that asked repo-svc before the revocation cannot write its stale answer over it.
const TOMBSTONE: &[u8] = b"-";

/// Cache of the identities of access tokens in Redis, shared by all processes. On a miss, and when Redis does not respond, the caller
/// asks repo-svc.
#[derive(Clone)]
pub struct TokenCache {
    redis: RedisClient,
    lifetime: Duration,
}

impl std::fmt::Debug for TokenCache {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("TokenCache").field("lifetime", &self.lifetime).finish_non_exhaustive()
    }
}

impl TokenCache {
    /// Returns a cache at `url` (`redis://…`) with entries that live for `lifetime`. Connects when it is first used.
    ///
    /// # Errors
    /// When the URL is malformed.
    pub fn new(url: &Secret, lifetime: Duration, clock: Clock) -> Result<Self, redis::RedisError> {
        Ok(Self::over(RedisClient::new(url, clock)?, lifetime))
    }

    /// Returns a cache that uses an existing client.
    #[must_use]
    pub fn over(redis: RedisClient, lifetime: Duration) -> Self {
        Self { redis, lifetime: lifetime.clamp(Duration::from_secs(1), MAX_LIFETIME) }
    }

    fn key(hash: &TokenHash) -> String {
        format!("ferrite:token:{}", hash.to_hex())
    }

    /// Returns the cached identity of a token.
    pub async fn get(&self, hash: &TokenHash) -> Option<Identity> {
        let identity = self.find(hash).await;
        match identity {
            Some(_) => metrics::counter!("ferrite_token_cache_lookups_total", "result" => "hit").increment(1),
            None => metrics::counter!("ferrite_token_cache_lookups_total", "result" => "miss").increment(1),
        }
        identity
    }

    async fn find(&self, hash: &TokenHash) -> Option<Identity> {
        let bytes: Option<Vec<u8>> = self.redis.query(redis::cmd("GET").arg(Self::key(hash))).await?;
        let bytes = bytes.filter(|bytes| bytes != TOMBSTONE)?;
        // Another program may have written the value. An empty value decodes to the default identity, whose user id is 0.
        Identity::decode(bytes.as_slice()).ok().filter(|identity| identity.user_id > 0)
    }

    /// Caches an identity that repo-svc was asked for at `asked_at`, unless that is too long ago or the token has an entry already.
    pub(super) async fn put_fresh(&self, hash: &TokenHash, identity: &Identity, asked_at: Instant) {
        if asked_at.elapsed() < MAX_ANSWER_AGE {
            self.put(hash, identity).await;
        }
    }

    /// Caches an identity, unless the token has an entry already.
    pub async fn put(&self, hash: &TokenHash, identity: &Identity) {
        let mut command = redis::cmd("SET");
        command.arg(Self::key(hash)).arg(identity.encode_to_vec()).arg("NX").arg("PX").arg(millis(self.lifetime));
        let _: Option<redis::Value> = self.redis.query(&command).await;
    }

    /// Replaces the entries of tokens by tombstones, which live longer than any answer of repo-svc that is still on its way. Returns
    /// when no process can read an old identity any more: as soon as Redis confirms, else when the last entry must have expired.
    pub async fn revoke(&self, hashes: &[TokenHash]) {
        if hashes.is_empty() {
            return;
        }
        // Other processes may still reach Redis. An answer from just before the revocation is written at most `MAX_ANSWER_AGE` and one
        // call to Redis later, and expires after `lifetime`.
        let deadline = tokio::time::Instant::now() + self.lifetime + MAX_ANSWER_AGE + RESPONSE_TIMEOUT;
        let mut pipe = redis::pipe();
        for hash in hashes {
            pipe.cmd("SET").arg(Self::key(hash)).arg(TOMBSTONE).arg("PX").arg(millis(self.lifetime * 2)).ignore();
        }
        loop {
            if self.redis.execute_bypassing_breaker(&pipe).await {
                return;
            }
            if tokio::time::Instant::now() >= deadline {
                tracing::warn!("token cache did not confirm a revocation; waited until its copies expired");
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}
