//! Start of a process: the error of a failed start, pauses between attempts to reach a server, and the listeners.
//!
//! Not here: databases, and keys and authentication, which other crates open.

use std::error::Error;
use std::time::Duration;

use ferrite_proto::grant::BadKey;
use futures_util::future::BoxFuture;

use crate::config::ServeArgs;
use crate::lifecycle::Lifecycle;
use crate::net::Listener;

/// Delay before the second attempt; doubled for each further one.
const MIN_DELAY: Duration = Duration::from_secs(1);
const MAX_DELAY: Duration = Duration::from_secs(30);

/// The error of a process that cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// What the process needs cannot be used: its database, a key, Redis.
    #[error(transparent)]
    Unusable(Box<dyn Error + Send + Sync>),
    /// A listener or a file cannot be opened.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The file with a key of grants holds no Ed25519 key.
    #[error("grant key file `{file}`: {source}")]
    GrantKey {
        /// Path of the file.
        file: String,
        /// The error of parsing the key.
        source: BadKey,
    },
    /// A setting, or the file that it names, cannot be used.
    #[error("{setting}: {source}")]
    Setting {
        /// The variable of the setting.
        setting: &'static str,
        /// The reason.
        source: Box<StartError>,
    },
    /// Any other failure; the text is the reason.
    #[error("{0}")]
    Other(String),
}

/// The life of a service, from start to stop. Boxed: a service's `run` is compiled in its own crate, not again in the program.
pub type ServiceFuture = BoxFuture<'static, Result<(), StartError>>;

impl StartError {
    /// Names the setting that an error comes from, by its variable.
    #[must_use]
    pub fn of(self, setting: &'static str) -> Self {
        Self::Setting { setting, source: Box::new(self) }
    }
}

/// Returns an error and its causes as one line.
#[must_use]
pub fn error_chain(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        // Some errors repeat their cause in their own text.
        if !line.contains(&text) {
            line = format!("{line}: {text}");
        }
        cause = error.source();
    }
    line.replace('\n', " ")
}

/// Delays between attempts to reach a server: 1 s, 2 s, 4 s and so on up to 30 s.
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

    /// Tells the reason of a failed attempt on the log and by `/readyz`, and waits for the next one.
    pub async fn pause(&mut self, reason: &str, life: &Lifecycle) {
        let delay = self.advance();
        tracing::warn!("{reason}; trying again in {} s", delay.as_secs());
        life.set_unready_reason(reason);
        life.pause(delay).await;
    }
}

impl ServeArgs {
    /// Starts to listen on every address of `listen`.
    ///
    /// # Errors
    /// When an address is in use or the process may not use it; the message names the address.
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
