//! [`RateLimiter`], which counts in Redis or in memory.

use std::sync::Arc;
use std::time::Duration;

use ferrite_core::Clock;
use ferrite_core::config::DEFAULT_RATE_LIMIT_COUNTERS;
use ferrite_proto::ServiceRole;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use super::memory::MemoryCounters;
use crate::redis::{KeyHash, RedisClient, RedisCounters};

/// Prefix of counters that all services share.
const SHARED_PREFIX: &str = "ferrite:count";

/// Counts events per key in fixed time windows, which begin with their first event. With Redis, all
/// services share the counts, or the replicas of one role ([`RateLimiter::of_role`]). Without
/// Redis, or while it does not respond, each process counts for itself.
#[derive(Clone)]
pub struct RateLimiter {
    redis: Option<RedisCounters>,
    /// Separates keys of different counters in memory.
    prefix: &'static str,
    pub(super) memory: Arc<Mutex<MemoryCounters>>,
    clock: Clock,
}

impl std::fmt::Debug for RateLimiter {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("RateLimiter").finish_non_exhaustive()
    }
}

impl RateLimiter {
    /// Returns a limiter that counts in `redis`, or in memory by `clock`.
    #[must_use]
    pub fn new(redis: Option<RedisClient>, clock: Clock) -> Self {
        Self::with_max_counters(redis, clock, DEFAULT_RATE_LIMIT_COUNTERS)
    }

    /// Like [`RateLimiter::new`], with at most `max_counters` counters in memory.
    #[must_use]
    pub fn with_max_counters(redis: Option<RedisClient>, clock: Clock, max_counters: u32) -> Self {
        let memory = MemoryCounters::new(usize::try_from(max_counters).unwrap_or(usize::MAX));
        let redis = redis.map(|redis| RedisCounters::new(redis, SHARED_PREFIX));
        Self { redis, prefix: SHARED_PREFIX, memory: Arc::new(Mutex::new(memory)), clock }
    }

    /// Returns a limiter whose counts only the processes of `role` share. In memory both share
    /// their room.
    #[must_use]
    pub fn of_role(&self, role: ServiceRole) -> Self {
        let prefix = match role {
            ServiceRole::Gateway => "ferrite:limit:gateway",
            ServiceRole::RepoSvc => "ferrite:limit:repo-svc",
            ServiceRole::IssueSvc => "ferrite:limit:issue-svc",
            ServiceRole::HookSvc => "ferrite:limit:hook-svc",
            ServiceRole::GitSvc => "ferrite:limit:git-svc",
        };
        Self { redis: self.redis.as_ref().map(|redis| redis.with_prefix(prefix)), prefix, ..self.clone() }
    }

    fn hash(&self, key: &str) -> KeyHash {
        Sha256::digest(format!("{}\0{key}", self.prefix)).into()
    }

    /// Counts one event of `key`. Returns the number of events in its window, including this one. A
    /// new window lasts for `window`.
    pub async fn count(&self, key: &str, window: Duration) -> u64 {
        let [count] = self.add([(key, 1)], window).await;
        count
    }

    /// Like [`RateLimiter::count`], for several keys and amounts in one round trip to Redis.
    pub async fn add<const N: usize>(&self, amounts: [(&str, u64); N], window: Duration) -> [u64; N] {
        let amounts = amounts.map(|(key, amount)| (self.hash(key), amount));
        if let Some(redis) = &self.redis
            && let Some(counts) = redis.add(&amounts, window).await
            && let Ok(counts) = counts.try_into()
        {
            return counts;
        }
        self.add_in_memory(amounts, window)
    }

    /// Like [`RateLimiter::add`], without waiting for Redis.
    pub fn add_later(&self, key: &str, amount: u64, window: Duration) {
        let amounts = [(self.hash(key), amount)];
        let Some(redis) = &self.redis else {
            self.add_in_memory(amounts, window);
            return;
        };
        let (limiter, counted) = (self.clone(), redis.add(&amounts, window));
        #[expect(
            clippy::disallowed_methods,
            reason = "ends within the time-out of Redis, and a count may be lost at a stop"
        )]
        tokio::spawn(async move {
            if counted.await.is_none() {
                limiter.add_in_memory(amounts, window);
            }
        });
    }

    fn add_in_memory<const N: usize>(&self, amounts: [(KeyHash, u64); N], window: Duration) -> [u64; N] {
        let (mut memory, now_us) = (self.memory.lock(), self.clock.now_us());
        amounts.map(|(hash, amount)| memory.add(hash, amount, window, now_us))
    }

    /// Returns the number of events of `key` in its window and the time until the window ends.
    /// `window` must be that of [`RateLimiter::count`].
    pub async fn peek(&self, key: &str, window: Duration) -> (u64, Duration) {
        let hash = self.hash(key);
        if let Some(redis) = &self.redis
            && let Some((count, left)) = redis.peek(&hash).await
        {
            return (count, left.min(window));
        }
        let (count, left) = self.memory.lock().peek(&hash, self.clock.now_us());
        (count, left.min(window))
    }

    /// Resets the count of `key` to zero.
    pub async fn clear(&self, key: &str) {
        let hash = self.hash(key);
        if let Some(redis) = &self.redis {
            redis.clear(&hash).await;
        }
        self.memory.lock().clear(&hash);
    }
}
