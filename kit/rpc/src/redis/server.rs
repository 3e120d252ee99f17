//! The address of Redis, and the protection of the connection.

use std::path::Path;
use std::time::Duration;

use ferrite_core::Clock;
use ferrite_core::Secret;
use ferrite_core::net::Address;
use ferrite_core::startup::{StartError, error_chain};
use ferrite_core::tls::{TlsError, read_roots};
use redis::{AsyncConnectionConfig, ConnectionAddr, ErrorKind, IntoConnectionInfo, TlsCertificates};

use super::client::RedisClient;

/// Timeout of connecting and of the response, at the start of a process.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(2);
/// Error codes of Redis for a wrong password or a missing permission.
const REFUSALS: [&str; 3] = ["NOAUTH", "WRONGPASS", "NOPERM"];

/// A Redis server: its address, password, and how to verify its certificate.
#[derive(Clone)]
pub struct RedisServer(redis::Client);

/// Why settings are not those of a Redis server.
#[derive(Debug, thiserror::Error)]
pub enum BadRedisServer {
    /// The URL is malformed or turns off the verification of certificates.
    #[error("`redis[s]://[[USER]:PASSWORD@]HOST[:PORT][/NUMBER]` is expected")]
    Url,
    /// There is a CA file, but the URL is without TLS.
    #[error("the Redis URL must start with `rediss://` if there is a CA file")]
    Plaintext,
    /// The CA file is unusable.
    #[error(transparent)]
    Authorities(#[from] TlsError),
}

impl From<BadRedisServer> for StartError {
    fn from(error: BadRedisServer) -> Self {
        Self::Other(format!("FERRITE_REDIS_URL or FERRITE_REDIS_CA_FILE is invalid: {}", error_chain(&error)))
    }
}

/// A failed attempt to reach Redis.
#[derive(Debug)]
pub struct Unreachable {
    /// The reason. Contains nothing of the URL but host and port.
    pub reason: String,
    /// Redis responds but rejects the password, which stays so until the setting is fixed.
    pub is_refusal: bool,
}

impl From<redis::RedisError> for Unreachable {
    fn from(error: redis::RedisError) -> Self {
        let is_refusal = error.kind() == ErrorKind::AuthenticationFailed
            || error.code().is_some_and(|code| REFUSALS.contains(&code));
        let mut reason = error.to_string().replace('\n', " ");
        if reason.contains("UnknownIssuer") {
            reason.push_str(" (FERRITE_REDIS_CA_FILE must name the file with the CA that signed it)");
        }
        Self { reason, is_refusal }
    }
}

impl RedisServer {
    /// Returns the server at `url`: `redis://…`, or `rediss://…` for TLS. Its certificate must be
    /// signed by a CA in the PEM file `authorities`, or else by one that the system trusts. The
    /// file is read once.
    ///
    /// # Errors
    /// If the URL is malformed or the file is unusable.
    pub fn new(url: &Secret, authorities: Option<&Path>) -> Result<Self, BadRedisServer> {
        let info = url.expose().into_connection_info().map_err(|_| BadRedisServer::Url)?;
        // Do not send CLIENT SETINFO, which the Redis ACL need not allow.
        let settings = info.redis_settings().clone().set_skip_set_lib_name();
        let info = info.set_redis_settings(settings);
        let client = match (info.addr(), authorities) {
            (ConnectionAddr::TcpTls { insecure: true, .. }, _) => return Err(BadRedisServer::Url),
            (_, None) => redis::Client::open(info),
            (ConnectionAddr::TcpTls { .. }, Some(file)) => {
                let certificates = TlsCertificates { client_tls: None, root_cert: Some(read_roots(file)?) };
                redis::Client::build_with_tls(info, certificates)
            }
            (_, Some(_)) => return Err(BadRedisServer::Plaintext),
        };
        client.map(Self).map_err(|_| BadRedisServer::Url)
    }

    /// Returns a client that connects on first use.
    ///
    /// # Errors
    /// [`BadRedisServer::Url`].
    pub fn client(&self, clock: Clock) -> Result<RedisClient, BadRedisServer> {
        RedisClient::new(&self.0, clock).map_err(|_| BadRedisServer::Url)
    }

    /// Whether connections are encrypted.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        matches!(self.0.get_connection_info().addr(), ConnectionAddr::TcpTls { .. })
    }

    /// Returns the address.
    #[must_use]
    pub fn address(&self) -> Address {
        match self.0.get_connection_info().addr() {
            ConnectionAddr::Unix(path) => Address::Unix(path.clone()),
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } if host.contains(':') => {
                Address::Tcp(format!("[{host}]:{port}"))
            }
            address => Address::Tcp(address.to_string()),
        }
    }

    /// Connects once and sends a `PING`.
    ///
    /// # Errors
    /// If Redis is unreachable, does not respond in time, or rejects the password.
    pub async fn reach(&self) -> Result<(), Unreachable> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(ATTEMPT_TIMEOUT))
            .set_response_timeout(Some(ATTEMPT_TIMEOUT));
        let mut connection = self.0.get_multiplexed_async_connection_with_config(&config).await?;
        redis::cmd("PING").query_async::<String>(&mut connection).await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(url: &str) -> Result<RedisServer, BadRedisServer> {
        RedisServer::new(&Secret::new(url), None)
    }

    #[test]
    fn a_url_names_the_address_and_whether_there_is_tls() {
        for (url, address, is_encrypted) in [
            ("redis://u:hunter2@10.0.0.1:7/3", "10.0.0.1:7", false),
            ("redis://redis", "redis:6379", false),
            ("redis://[::1]:6380", "[::1]:6380", false),
            ("redis+unix:///run/redis.sock", "unix:/run/redis.sock", false),
            ("rediss://u:hunter2@redis:6380", "redis:6380", true),
        ] {
            let server = server(url).unwrap();
            assert_eq!(
                (server.address().to_string().as_str(), server.is_encrypted()),
                (address, is_encrypted),
                "{url}"
            );
        }
    }

    #[test]
    fn a_url_without_a_checked_certificate_is_refused() {
        for url in ["", "not a url", "http://x", "rediss://redis#insecure", "rediss://redis#x", "redis://h:port"] {
            assert!(matches!(server(url), Err(BadRedisServer::Url)), "{url}");
        }
    }

    #[test]
    fn a_certificate_of_an_unknown_authority_names_the_setting() {
        let reason =
            |text: &'static str| Unreachable::from(redis::RedisError::from(std::io::Error::other(text))).reason;
        assert!(reason("invalid peer certificate: UnknownIssuer").contains("FERRITE_REDIS_CA_FILE"));
        assert_eq!(reason("connection refused"), "connection refused");
    }

    #[test]
    fn authorities_are_for_tls_and_must_be_certificates() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ca.pem");
        let with = |url: &str| RedisServer::new(&Secret::new(url), Some(&file));
        assert!(matches!(with("rediss://redis"), Err(BadRedisServer::Authorities(TlsError::File { .. }))));
        std::fs::write(&file, "no certificate").unwrap();
        assert!(matches!(with("rediss://redis"), Err(BadRedisServer::Authorities(TlsError::Pem { .. }))));
        for plain in ["redis://redis", "redis+unix:///run/redis.sock"] {
            assert!(matches!(with(plain), Err(BadRedisServer::Plaintext)), "{plain}");
        }
    }
}
