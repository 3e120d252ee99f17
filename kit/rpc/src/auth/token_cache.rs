//! The cache of validated access tokens in Redis. repo-svc signs the entries and every process
//! verifies them.
//!
//! An attacker who can write to Redis cannot forge an entry, only restore one that repo-svc signed,
//! for the same token and until it expires.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use ferrite_core::{Clock, micros};
use ferrite_proto::grant::{BadEntry, MAX_ENTRY_LIFETIME, Signer, Verifier};
use ferrite_proto::repo::{CachedIdentity, Identity};
use moka::Expiry;
use moka::sync::Cache;
use sha2::{Digest, Sha256};

use crate::redis::{RESPONSE_TIMEOUT, RedisClient, millis};

/// A slower response of the table is not cached: in the meantime the token may have been revoked
/// and its tombstone may have expired.
const MAX_ANSWER_AGE: Duration = Duration::from_secs(1);
/// Value for a revoked token. A process that read the table before the revocation cannot overwrite
/// it with its stale response.
const TOMBSTONE: &[u8] = b"-";
/// The entry of a token for a hundred repositories has less than 2 KiB.
const MAX_ENTRY_BYTES: usize = 16 << 10;
/// Verified entries in memory, whose signature is not checked again.
const MAX_VERIFIED_ENTRIES: u64 = 10_000;
/// Minimum interval between log entries about forged entries.
const WARNING_INTERVAL: Duration = Duration::from_secs(30);

/// SHA-256 of an access token. Tokens are only stored and compared in this form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TokenHash(pub [u8; 32]);

impl TokenHash {
    /// Returns the hash of a token.
    #[must_use]
    pub fn of(token: &str) -> Self {
        Self(Sha256::digest(token.as_bytes()).into())
    }

    /// Returns the hash as 64 lower-case hexadecimal digits.
    #[must_use]
    pub fn to_hex(&self) -> String {
        hex::encode(self.0)
    }
}

/// The read side of the cache in Redis, for all processes. After a miss, or if Redis does not
/// respond, the caller asks repo-svc. Clones share the verified entries.
#[derive(Clone)]
pub struct TokenCache {
    redis: RedisClient,
    verifier: Arc<Verifier>,
    /// Verified entries by hash.
    verified: Cache<[u8; 32], Arc<CachedIdentity>>,
    clock: Clock,
    silent_until_us: Arc<AtomicI64>,
}

/// Cache policy: an entry lives until its own expiry.
struct UntilExpiry(Clock);

impl Expiry<[u8; 32], Arc<CachedIdentity>> for UntilExpiry {
    fn expire_after_create(&self, _: &[u8; 32], entry: &Arc<CachedIdentity>, _: Instant) -> Option<Duration> {
        let left_us = entry.entry_expire_us.saturating_sub(self.0.now_us());
        Some(Duration::from_micros(u64::try_from(left_us).unwrap_or(0)).min(MAX_ENTRY_LIFETIME))
    }
}

impl TokenCache {
    /// Returns a cache whose entries `verifier` verifies.
    #[must_use]
    pub fn new(redis: RedisClient, verifier: Arc<Verifier>, clock: Clock) -> Self {
        let verified =
            Cache::builder().max_capacity(MAX_VERIFIED_ENTRIES).expire_after(UntilExpiry(clock.clone())).build();
        Self { redis, verifier, verified, clock, silent_until_us: Arc::default() }
    }

    fn key(hash: &TokenHash) -> String {
        format!("ferrite:token:{}", hash.to_hex())
    }

    /// Returns the cached identity of a token.
    pub async fn get(&self, hash: &TokenHash) -> Option<Identity> {
        let found = self.find(hash).await.map(|entry| self.identity(&entry, hash)).transpose();
        let result = match found {
            Ok(Some(_)) => "hit",
            Ok(None) => "miss",
            // Redis removes expired entries. If one is left, clocks differ or somebody restored it.
            Err(BadEntry::Expired) => "expired",
            Err(error @ (BadEntry::Unsigned | BadEntry::OtherToken)) => {
                self.warn_of_forgery(error);
                "forged"
            }
        };
        metrics::counter!("ferrite_token_cache_lookups_total", "result" => result).increment(1);
        found.ok().flatten()
    }

    async fn find(&self, hash: &TokenHash) -> Option<Vec<u8>> {
        let mut command = redis::cmd("GETRANGE");
        command.arg(Self::key(hash)).arg(0).arg(MAX_ENTRY_BYTES - 1);
        let entry: Vec<u8> = self.redis.query(&command).await?;
        // Empty if the key does not exist.
        (!entry.is_empty() && entry != TOMBSTONE).then_some(entry)
    }

    /// Returns the identity in an entry if repo-svc signed it for this token and it has not
    /// expired.
    fn identity(&self, entry: &[u8], hash: &TokenHash) -> Result<Identity, BadEntry> {
        let digest: [u8; 32] = Sha256::digest(entry).into();
        if let Some(verified) = self.verified.get(&digest) {
            return verified.identity_of(&hash.0, self.clock.now_us()).cloned();
        }
        let entry = self.verifier.verify_identity(entry)?;
        let identity = entry.identity_of(&hash.0, self.clock.now_us())?.clone();
        self.verified.insert(digest, Arc::new(entry));
        Ok(identity)
    }

    /// Logs a forged entry, at most one per [`WARNING_INTERVAL`].
    fn warn_of_forgery(&self, error: BadEntry) {
        let now_us = self.clock.now_us();
        if now_us >= self.silent_until_us.load(Ordering::Relaxed) {
            self.silent_until_us.store(now_us + micros(WARNING_INTERVAL), Ordering::Relaxed);
            tracing::warn!(%error, "ignored an invalid token cache entry: a program other than repo-svc writes to Redis");
        }
    }
}

/// The write side of a [`TokenCache`]. Only repo-svc has one.
#[derive(Clone)]
pub struct TokenCacheWriter {
    redis: RedisClient,
    signer: Arc<Signer>,
    lifetime: Duration,
    clock: Clock,
}

impl TokenCacheWriter {
    /// Returns a writer of entries that are signed by `signer` and live for `lifetime`, clamped to
    /// one second to one hour.
    #[must_use]
    pub fn new(redis: RedisClient, signer: Arc<Signer>, lifetime: Duration, clock: Clock) -> Self {
        Self { redis, signer, lifetime: lifetime.clamp(Duration::from_secs(1), MAX_ENTRY_LIFETIME), clock }
    }

    /// Reads the table with `lookup`. Caches the identity unless that took too long or the token
    /// already has an entry. The lifetime counts from before the lookup.
    ///
    /// # Errors
    /// Those of `lookup`.
    pub async fn fill<E>(
        &self,
        hash: &TokenHash,
        lookup: impl Future<Output = Result<Option<Identity>, E>>,
    ) -> Result<Option<Identity>, E> {
        let (began, began_us) = (Instant::now(), self.clock.now_us());
        let identity = lookup.await?;
        let age = began.elapsed();
        if let Some(identity) = identity.as_ref().filter(|_| age < MAX_ANSWER_AGE) {
            let entry = self.signer.sign_identity(&hash.0, identity, began_us + micros(self.lifetime));
            let left = millis(self.lifetime.saturating_sub(age)).max(1);
            let mut command = redis::cmd("SET");
            command.arg(TokenCache::key(hash)).arg(entry).arg("NX").arg("PX").arg(left);
            let _: Option<redis::Value> = self.redis.query(&command).await;
        }
        Ok(identity)
    }

    /// Replaces the entries of tokens by tombstones, which outlive any table response in flight.
    /// Returns once no process can read an old identity: when Redis confirms, or else when the last
    /// entry must have expired.
    pub async fn revoke(&self, hashes: &[TokenHash]) {
        if hashes.is_empty() {
            return;
        }
        // Other processes may still reach Redis. A response from just before the revocation is
        // written within `MAX_ANSWER_AGE` and one call to Redis, and expires after `lifetime`.
        let deadline = tokio::time::Instant::now() + self.lifetime + MAX_ANSWER_AGE + RESPONSE_TIMEOUT;
        let mut pipe = redis::pipe();
        for hash in hashes {
            let key = TokenCache::key(hash);
            pipe.cmd("SET").arg(key).arg(TOMBSTONE).arg("PX").arg(millis(self.lifetime * 2)).ignore();
        }
        loop {
            if self.redis.execute_bypassing_breaker(&pipe).await {
                return;
            }
            if tokio::time::Instant::now() >= deadline {
                tracing::warn!("Redis did not confirm a token revocation; waited until cached copies expired");
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}
