//! Start of a process: the error of a failed start, the backoff between connection attempts, and
//! the listeners.

use std::error::Error;
use std::time::Duration;

use ferrite_proto::grant::BadKey;
use futures_util::future::BoxFuture;

use crate::config::ServeArgs;
use crate::lifecycle::Lifecycle;
use crate::net::Listener;

/// Delay before the second attempt. Doubles with each attempt.
const MIN_DELAY: Duration = Duration::from_secs(1);
const MAX_DELAY: Duration = Duration::from_secs(30);

/// Why a process cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A dependency cannot be used: the database, a key, or Redis.
    #[error(transparent)]
    Unusable(Box<dyn Error + Send + Sync>),
    /// A listener or a file cannot be opened.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The grant key file has no Ed25519 key.
    #[error("grant key file `{file}`: {source}")]
    GrantKey {
        /// Path of the file.
        file: String,
        /// The error of parsing the key.
        source: BadKey,
    },
    /// A setting, or the file that it names, is unusable.
    #[error("{setting}: {source}")]
    Setting {
        /// The variable of the setting, such as `FERRITE_LISTEN`.
        setting: &'static str,
        /// The reason.
        source: Box<StartError>,
    },
    /// Any other failure.
    #[error("{0}")]
    Other(String),
}

/// A running service. Boxed, so that its code is compiled in its own crate and not again in the
/// program.
pub type ServiceFuture = BoxFuture<'static, Result<(), StartError>>;

impl StartError {
    /// Adds the variable of the setting that caused the error.
    #[must_use]
    pub fn of(self, setting: &'static str) -> Self {
        Self::Setting { setting, source: Box::new(self) }
    }
}

/// Returns an error and its causes on one line.
#[must_use]
pub fn error_chain(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        // Some errors already include their cause.
        if !line.contains(&text) {
            line = format!("{line}: {text}");
        }
        cause = error.source();
    }
    line.replace('\n', " ")
}

/// Delays between attempts to reach a server: 1 s, doubling up to 30 s.
#[derive(Debug)]
pub struct Backoff {
    next: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { next: MIN_DELAY }
    }
}

impl Backoff {
    fn advance(&mut self) -> Duration {
        let delay = self.next;
        self.next = (delay * 2).min(MAX_DELAY);
        delay
    }

    /// Logs the reason of a failed attempt, shows it in `/readyz`, and waits before the next
    /// attempt.
    pub async fn pause(&mut self, reason: &str, life: &Lifecycle) {
        let delay = self.advance();
        tracing::warn!("{reason}; retrying in {} s", delay.as_secs());
        life.set_unready_reason(reason);
        life.pause(delay).await;
    }
}

impl ServeArgs {
    /// Binds every address of `listen`.
    ///
    /// # Errors
    /// If an address is in use or not permitted. The message names the address.
    pub fn bind(&self) -> BoxFuture<'_, std::io::Result<Vec<Listener>>> {
        Box::pin(async move {
            let mut listeners = Vec::new();
            for address in &self.listen {
                listeners.push(address.bind().await?);
            }
            Ok(listeners)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_half_a_minute() {
        let mut backoff = Backoff::default();
        let delays: Vec<u64> = (0..7).map(|_| backoff.advance().as_secs()).collect();
        assert_eq!(delays, [1, 2, 4, 8, 16, 30, 30]);
    }
}
