use std::time::{Duration, Instant};

use ferrite_proto::repo::Identity;
use prost::Message;

use super::token_hash::TokenHash;
use crate::clock::Clock;
use crate::redis::{RESPONSE_TIMEOUT, RedisClient, millis};
use crate::secret::Secret;

/// An answer of repo-svc that took longer than this is not remembered: the token may have been revoked meanwhile, and the trace of
/// that be gone again.
const FRESH: Duration = Duration::from_secs(1);
const MAX_LIFETIME: Duration = Duration::from_secs(3600);
/// Stands where an identity would: the token was revoked just now, and whoever asked repo-svc before that must not put its
/// stale answer back.
const TOMBSTONE: &[u8] = b"-";

/// The identities behind tokens, shared by all processes through Redis. Holds copies for a short time and never the truth: what
/// it does not know, or cannot say, is asked of repo-svc.
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
    /// A cache at `url` (`redis://…`) that remembers identities for `lifetime`. Connects when first used.
    ///
    /// # Errors
    /// When the URL is malformed.
    pub fn new(url: &Secret, lifetime: Duration, clock: Clock) -> Result<Self, redis::RedisError> {
        Ok(Self::over(RedisClient::new(url, clock)?, lifetime))
    }

    /// A cache in a Redis that others use as well.
    #[must_use]
    pub fn over(redis: RedisClient, lifetime: Duration) -> Self {
        Self { redis, lifetime: lifetime.clamp(Duration::from_secs(1), MAX_LIFETIME) }
    }

    fn key(hash: &TokenHash) -> String {
        format!("ferrite:token:{}", hash.to_hex())
    }

    /// The identity remembered for a token, if it is.
    pub async fn get(&self, hash: &TokenHash) -> Option<Identity> {
        let bytes: Option<Vec<u8>> = self.redis.query(redis::cmd("GET").arg(Self::key(hash))).await?;
        let bytes = bytes.filter(|bytes| bytes != TOMBSTONE)?;
        // Whatever else somebody wrote there is not an identity; no bytes at all would decode to one.
        Identity::decode(bytes.as_slice()).ok().filter(|identity| identity.user_id > 0)
    }

    /// Remembers an identity that repo-svc was asked for at `asked`, unless that is too long ago or something stands there already.
    pub(super) async fn put_fresh(&self, hash: &TokenHash, identity: &Identity, asked: Instant) {
        if asked.elapsed() < FRESH {
            self.put(hash, identity).await;
        }
    }

    /// Remembers an identity for its lifetime, unless something stands there already.
    pub async fn put(&self, hash: &TokenHash, identity: &Identity) {
        let mut command = redis::cmd("SET");
        command.arg(Self::key(hash)).arg(identity.encode_to_vec()).arg("NX").arg("PX").arg(millis(self.lifetime));
        let _: Option<redis::Value> = self.redis.query(&command).await;
    }

    /// Forgets tokens and keeps them forgotten until every answer that was on its way has gone stale. Returns only when nobody can
    /// read an old identity any more: at once when Redis confirms, else when the last copy must have expired.
    pub async fn revoke(&self, hashes: &[TokenHash]) {
        if hashes.is_empty() {
            return;
        }
        // Others may still reach Redis: what they asked just before is written at most this much later, and lives as long again.
        let deadline = tokio::time::Instant::now() + self.lifetime + FRESH + RESPONSE_TIMEOUT;
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
