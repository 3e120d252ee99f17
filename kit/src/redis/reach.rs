//! One attempt to reach Redis, for the start of a process.

use std::time::Duration;

use redis::{AsyncConnectionConfig, ErrorKind};

use super::client::RedisClient;
use crate::secret::Secret;

/// Longest time to connect, and to wait for the response.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(2);
/// Codes of Redis for a connection without the right password, or without a permission.
const REFUSALS: [&str; 3] = ["NOAUTH", "WRONGPASS", "NOPERM"];

/// The failure of an attempt to reach Redis.
#[derive(Debug)]
pub(crate) struct Unreachable {
    /// The reason. Holds no part of the URL but its host and port.
    pub(crate) reason: String,
    /// Redis answers and refuses: the setting is wrong, and stays so until somebody changes it.
    pub(crate) is_refusal: bool,
}

impl From<redis::RedisError> for Unreachable {
    fn from(error: redis::RedisError) -> Self {
        let is_refusal = error.kind() == ErrorKind::AuthenticationFailed
            || error.code().is_some_and(|code| REFUSALS.contains(&code));
        Self { reason: error.to_string().replace('\n', " "), is_refusal }
    }
}

impl RedisClient {
    /// Connects to the Redis at `url` once and asks for a sign of life.
    ///
    /// # Errors
    /// When the URL is malformed, or Redis cannot be reached, does not answer in time, or refuses.
    pub(crate) async fn reach(url: &Secret) -> Result<(), Unreachable> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(ATTEMPT_TIMEOUT))
            .set_response_timeout(Some(ATTEMPT_TIMEOUT));
        let client = redis::Client::open(url.expose())?;
        let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
        redis::cmd("PING").query_async::<String>(&mut connection).await?;
        Ok(())
    }
}
