use std::time::Duration;

use futures_util::future::BoxFuture;

use super::client::{RedisClient, millis};

/// Redis counts up to 2^63.
const MAX_COUNT_DIGITS: usize = 20;

/// SHA-256 of a key, so that no name or address is stored in clear text.
pub(crate) type KeyHash = [u8; 32];

/// Counters of events in fixed time windows, shared by all processes with the same Redis and
/// prefix. A key is a hash of what is counted.
///
/// Methods return `None` if Redis does not respond in time. The futures are boxed, so that the
/// client is compiled once, in this crate.
#[derive(Clone)]
pub(crate) struct RedisCounters {
    client: RedisClient,
    /// Prefix of all names. Redis ACLs restrict users by it.
    prefix: &'static str,
}

impl RedisCounters {
    pub(crate) fn new(client: RedisClient, prefix: &'static str) -> Self {
        Self { client, prefix }
    }

    pub(crate) fn with_prefix(&self, prefix: &'static str) -> Self {
        Self::new(self.client.clone(), prefix)
    }

    fn name(&self, key: &KeyHash) -> String {
        format!("{}:{}", self.prefix, hex::encode(key))
    }

    /// Counts several amounts in one round trip. Returns the counts of their windows. A new window
    /// lasts for `window`.
    pub(crate) fn add(&self, amounts: &[(KeyHash, u64)], window: Duration) -> BoxFuture<'static, Option<Vec<u64>>> {
        let mut commands = redis::pipe();
        commands.atomic();
        for (key, amount) in amounts {
            let name = self.name(key);
            // Creates the key with its expiry. A counter without one would never be deleted.
            commands.cmd("SET").arg(&name).arg(0).arg("PX").arg(millis(window).max(1)).arg("NX").ignore();
            commands.cmd("INCRBY").arg(&name).arg(*amount);
        }
        let client = self.client.clone();
        Box::pin(async move { client.query_pipeline::<Vec<u64>>(&commands).await })
    }

    /// Returns the count of the current window and the time until it ends.
    pub(crate) fn peek(&self, key: &KeyHash) -> BoxFuture<'_, Option<(u64, Duration)>> {
        let name = self.name(key);
        let mut commands = redis::pipe();
        commands.atomic().cmd("GETRANGE").arg(&name).arg(0).arg(MAX_COUNT_DIGITS - 1).cmd("PTTL").arg(&name);
        Box::pin(async move {
            let (count, left_ms) = self.client.query_pipeline::<(Vec<u8>, i64)>(&commands).await?;
            // Empty if the key does not exist.
            let count = str::from_utf8(&count).ok().and_then(|count| count.parse::<u64>().ok());
            // PTTL is negative if the key does not exist.
            let left = Duration::from_millis(u64::try_from(left_ms).unwrap_or(0));
            Some((count.unwrap_or(0), left))
        })
    }

    /// Ends the current window.
    pub(crate) fn clear(&self, key: &KeyHash) -> BoxFuture<'_, Option<()>> {
        let name = self.name(key);
        Box::pin(async move {
            let _: redis::Value = self.client.query(redis::cmd("DEL").arg(name)).await?;
            Some(())
        })
    }
}
