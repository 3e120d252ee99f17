use std::time::Duration;

use futures_util::future::BoxFuture;

use super::client::{RedisClient, millis};

/// Counters of events in fixed time windows, shared by all processes that use the same Redis. A key is the hash of what is counted.
///
/// Each method returns `None` if Redis does not respond in time. The futures are boxed, so that the client is compiled once, in this
/// crate, and not in every crate that polls them.
#[derive(Clone, Debug)]
pub(crate) struct RedisCounters(RedisClient);

impl RedisCounters {
    pub(crate) fn new(client: RedisClient) -> Self {
        Self(client)
    }

    /// Counts `amount` events and returns the count of their window. A window that begins with these events lasts for `window`.
    pub(crate) fn add(&self, key: &[u8], amount: u32, window: Duration) -> BoxFuture<'_, Option<u32>> {
        let name = name(key);
        let mut commands = redis::pipe();
        // The key is made with its expiry: a counter without one would never be deleted.
        commands.atomic().cmd("SET").arg(&name).arg(0).arg("PX").arg(millis(window).max(1)).arg("NX").ignore();
        commands.cmd("INCRBY").arg(&name).arg(amount);
        Box::pin(async move {
            let (count,) = self.0.query_pipeline::<(u64,)>(&commands).await?;
            Some(u32::try_from(count).unwrap_or(u32::MAX))
        })
    }

    /// Returns the count of the current window, and the time until the window ends.
    pub(crate) fn peek(&self, key: &[u8]) -> BoxFuture<'_, Option<(u32, Duration)>> {
        let name = name(key);
        let mut commands = redis::pipe();
        commands.atomic().cmd("GET").arg(&name).cmd("PTTL").arg(&name);
        Box::pin(async move {
            let (count, left_ms) = self.0.query_pipeline::<(Option<u64>, i64)>(&commands).await?;
            // PTTL is negative for a key that does not exist.
            let left = Duration::from_millis(u64::try_from(left_ms).unwrap_or(0));
            Some((u32::try_from(count.unwrap_or(0)).unwrap_or(u32::MAX), left))
        })
    }

    /// Ends the current window.
    pub(crate) fn clear(&self, key: &[u8]) -> BoxFuture<'_, Option<()>> {
        let name = name(key);
        Box::pin(async move {
            let _: redis::Value = self.0.query(redis::cmd("DEL").arg(name)).await?;
            Some(())
        })
    }
}

fn name(key: &[u8]) -> String {
    format!("ferrite:limit:{}", hex::encode(key))
}
