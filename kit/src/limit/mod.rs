//! Counting what may happen only so often: wrong passwords, requests of one address.
//!
//! Not here: how often is too often. That is its caller's to say.

mod memory;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::Clock;
use crate::shared::{Shared, millis};
use memory::Memory;

/// What a key is stored as: never a name or an address that somebody could read.
type Hash = [u8; 32];

/// Counts events per key in fixed windows of time, each of which begins with its first event. In Redis the replicas of a service
/// count together; without it, and while it does not answer, each process counts for itself.
#[derive(Clone)]
pub struct Limiter {
    shared: Option<Shared>,
    memory: Arc<Mutex<Memory>>,
    clock: Clock,
}

impl std::fmt::Debug for Limiter {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Limiter").field("shared", &self.shared).finish_non_exhaustive()
    }
}

impl Limiter {
    /// A limiter that counts in `shared`, or in memory by `clock`.
    #[must_use]
    pub fn new(shared: Option<Shared>, clock: Clock) -> Self {
        Self { shared, memory: Arc::default(), clock }
    }

    /// Counts one event of `key` and returns how many there were in its window, this one included. A window that begins now lasts
    /// for `window`.
    pub async fn count(&self, key: &str, window: Duration) -> u32 {
        let hash = hash(key);
        if let Some(shared) = &self.shared {
            let name = name(&hash);
            let mut commands = redis::pipe();
            // The window is made with its end: a counter without one would never be forgotten.
            commands.atomic().cmd("SET").arg(&name).arg(0).arg("PX").arg(millis(window).max(1)).arg("NX").ignore();
            commands.cmd("INCR").arg(&name);
            if let Some((count,)) = shared.ask_all::<(u64,)>(&commands).await {
                return u32::try_from(count).unwrap_or(u32::MAX);
            }
        }
        self.memory().count(hash, window, self.clock.now_us())
    }

    /// How many events of `key` there were in its window, and how long that lasts still. `window` is what [`Limiter::count`] is
    /// called with.
    pub async fn peek(&self, key: &str, window: Duration) -> (u32, Duration) {
        let hash = hash(key);
        if let Some(shared) = &self.shared {
            let name = name(&hash);
            let mut commands = redis::pipe();
            commands.atomic().cmd("GET").arg(&name).cmd("PTTL").arg(&name);
            if let Some((count, left)) = shared.ask_all::<(Option<u64>, i64)>(&commands).await {
                let left = Duration::from_millis(u64::try_from(left).unwrap_or(0)).min(window);
                return (u32::try_from(count.unwrap_or(0)).unwrap_or(u32::MAX), left);
            }
        }
        let (count, left) = self.memory().peek(&hash, self.clock.now_us());
        (count, left.min(window))
    }

    /// Forgets the events of `key`.
    pub async fn clear(&self, key: &str) {
        let hash = hash(key);
        if let Some(shared) = &self.shared {
            let _: Option<redis::Value> = shared.ask(redis::cmd("DEL").arg(name(&hash))).await;
        }
        self.memory().clear(&hash);
    }

    fn memory(&self) -> std::sync::MutexGuard<'_, Memory> {
        self.memory.lock().expect("nothing panics while it is held")
    }
}

fn hash(key: &str) -> Hash {
    Sha256::digest(key.as_bytes()).into()
}

fn name(hash: &Hash) -> String {
    format!("ferrite:limit:{}", hex::encode(hash))
}

#[cfg(test)]
mod tests;
