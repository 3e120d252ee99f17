//! The keys of a process, and the authentication, channels and listeners built from them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use ferrite_core::Lifecycle;
use ferrite_core::config::{DEFAULT_RATE_LIMIT_COUNTERS, RedisArgs, within};
use ferrite_core::startup::{Backoff, ServiceFuture};
use tokio::time::Instant;

use ferrite_core::Clock;
use ferrite_core::config::{GrpcTlsArgs, PlaintextAddress};
use ferrite_core::net::{Address, ServiceAddresses, StoreAddresses};
use ferrite_core::startup::StartError;
use ferrite_core::tls::{ClientTls, ServerTls, TlsError};
use ferrite_proto::ServiceRole;
use ferrite_proto::grant::{Signer, Verifier};
use ferrite_rpc::auth::{AuthLayer, Authorizer, TokenAuthority, TokenCache, TokenCacheWriter, TokenValidator};
use ferrite_rpc::grpc::{Channel, ChannelCredentials, StoreChannel, channel};
use ferrite_rpc::rate_limit::RateLimiter;
use ferrite_rpc::redis::{RedisClient, RedisServer};
use ferrite_rpc::service_key::{ServiceKey, ServiceKeyError, ServicePublicKeys, ServiceTokenSource, ServiceVerifier};

use crate::{ListenerOptions, Transport};

/// How long to wait for a Redis that does not respond.
const REDIS_PATIENCE: Duration = Duration::from_secs(10);

/// Keys by which the processes of an installation authenticate each other and verify grants, and
/// the Redis that they share.
#[derive(Args, Clone, Debug)]
pub struct CredentialArgs {
    /// Private key of this role (Ed25519), a PEM file.
    #[arg(long, env = "FERRITE_SERVICE_KEY_FILE")]
    pub service_key_file: PathBuf,

    /// Folder with the public keys of all roles: `ROLE.pub.pem`, `ROLE.next.pub.pem`.
    #[arg(long, env = "FERRITE_SERVICE_PUBLIC_KEYS")]
    pub service_public_keys: PathBuf,

    /// Public key that verifies grants (Ed25519), a PEM file.
    #[arg(long, env = "FERRITE_GRANT_PUBLIC_KEY_FILE")]
    pub grant_public_key_file: PathBuf,

    /// The Redis that processes share.
    #[command(flatten)]
    pub redis: RedisArgs,

    /// Rate limit counters in memory, used without Redis and while it is down.
    #[arg(long, env = "FERRITE_RATE_LIMIT_COUNTERS", default_value_t = DEFAULT_RATE_LIMIT_COUNTERS, value_parser = within::<u32>(16..=10_000_000))]
    pub rate_limit_counters: u32,

    /// TLS between processes.
    #[command(flatten)]
    pub tls: GrpcTlsArgs,
}

/// Keys of a process, with the caches and counters for authentication.
#[derive(Clone)]
pub struct ServiceCredentials {
    /// Verifies grants.
    pub verifier: Arc<Verifier>,
    /// Verifies the tokens that other processes send.
    pub service_verifier: ServiceVerifier,
    /// Issues the tokens that prove the role of this process to others.
    pub token_source: Arc<ServiceTokenSource>,
    /// Cache of validated tokens in Redis, if Redis is used.
    pub token_cache: Option<TokenCache>,
    /// Counters that all processes of this role share, in Redis if it is used.
    pub limiter: RateLimiter,
    /// Counters that the processes of all services share, in Redis if it is used.
    pub shared_limiter: RateLimiter,
    redis: Option<RedisClient>,
    /// Both sides of TLS between processes, if it is on.
    tls: Option<(ServerTls, ClientTls)>,
    clock: Clock,
}

impl CredentialArgs {
    /// Reads the keys of a process with the given role.
    ///
    /// # Errors
    /// If a file is unreadable or has no such key, the private key is not that of the role, or the
    /// URL of Redis is malformed.
    pub fn load(&self, role: ServiceRole, clock: &Clock) -> Result<ServiceCredentials, StartError> {
        let verifier = self.verifier().map_err(|error| error.of("FERRITE_GRANT_PUBLIC_KEY_FILE"))?;
        let wrong_key = |error: ServiceKeyError| StartError::from(error).of("FERRITE_SERVICE_KEY_FILE");
        let key = ServiceKey::read(&self.service_key_file).map_err(wrong_key)?;
        let public_keys = ServicePublicKeys::open(&self.service_public_keys)
            .map_err(|error| StartError::from(error).of("FERRITE_SERVICE_PUBLIC_KEYS"))?;
        let token_source = ServiceTokenSource::new(key, role, clock.clone());
        token_source.check(&public_keys, &self.service_key_file).map_err(wrong_key)?;
        let redis = self.redis_server()?.map(|server| server.client(clock.clone())).transpose()?;
        let verifier = Arc::new(verifier);
        let token_cache = redis.clone().map(|redis| TokenCache::new(redis, Arc::clone(&verifier), clock.clone()));
        let shared_limiter = RateLimiter::with_max_counters(redis.clone(), clock.clone(), self.rate_limit_counters);
        Ok(ServiceCredentials {
            verifier,
            service_verifier: ServiceVerifier::new(public_keys, role),
            token_source: Arc::new(token_source),
            token_cache,
            limiter: shared_limiter.of_role(role),
            shared_limiter,
            redis,
            tls: load_tls(&self.tls).map_err(|error| StartError::Other(error.to_string()))?,
            clock: clock.clone(),
        })
    }

    /// Returns the Redis server, if Redis is used.
    ///
    /// # Errors
    /// If the URL is malformed or the CA file is unusable.
    pub fn redis_server(&self) -> Result<Option<RedisServer>, StartError> {
        let server = self.redis.url().map(|url| RedisServer::new(url, self.redis.redis_ca_file.as_deref()));
        Ok(server.transpose()?)
    }

    /// Checks that no connection leaves this machine without TLS, to Redis or to the gRPC addresses
    /// `grpc`.
    ///
    /// # Errors
    /// If one does and the settings do not allow it.
    pub fn check_addresses<'a>(&self, grpc: impl IntoIterator<Item = &'a Address>) -> Result<(), PlaintextAddress> {
        self.tls.check(grpc)?;
        // A malformed URL is reported when the keys are loaded.
        match self.redis_server() {
            Ok(Some(server)) if !server.is_encrypted() => self.redis.check_plaintext(&server.address()),
            _ => Ok(()),
        }
    }

    /// Waits until Redis is usable, if it is used, or `life` stops. Logs failed attempts and shows
    /// them in `/readyz`. After 10 seconds without a response the process starts without Redis, as
    /// when Redis fails later. While Redis rejects the password, it keeps waiting.
    #[must_use]
    pub fn wait_for_redis(&self, life: &Lifecycle) -> ServiceFuture {
        let (redis, life) = (self.redis_server(), life.clone());
        Box::pin(async move {
            if let Some(server) = redis? {
                wait_for_redis(&server, &life).await;
            }
            life.set_unready_reason("starting");
            Ok(())
        })
    }

    fn verifier(&self) -> Result<Verifier, StartError> {
        let file = self.grant_public_key_file.display().to_string();
        let pem = std::fs::read(&self.grant_public_key_file)
            .map_err(|error| StartError::Other(format!("grant key file `{file}`: {error}")))?;
        Verifier::from_pem(&pem).map_err(|source| StartError::GrantKey { file, source })
    }
}

async fn wait_for_redis(server: &RedisServer, life: &Lifecycle) {
    let began = Instant::now();
    let mut backoff = Backoff::default();
    while !life.is_stopping() {
        let Err(failure) = server.reach().await else { return };
        let reason = format!("cannot use the Redis of FERRITE_REDIS_URL: {}", failure.reason);
        if !failure.is_refusal && began.elapsed() >= REDIS_PATIENCE {
            tracing::warn!("{reason}; continuing without it");
            return;
        }
        backoff.pause(&reason, life).await;
    }
}

fn load_tls(args: &GrpcTlsArgs) -> Result<Option<(ServerTls, ClientTls)>, TlsError> {
    let Some((ca, certificate, key)) = args.files() else { return Ok(None) };
    Ok(Some((ServerTls::load(certificate, key, Some(ca))?, ClientTls::load(ca, certificate, key)?)))
}

impl ServiceCredentials {
    /// Returns the credentials of a connection to a service with the role `to`: a token for that
    /// role, and a certificate if TLS is on.
    #[must_use]
    pub fn channel_credentials(&self, to: ServiceRole) -> ChannelCredentials {
        let tls = self.tls.as_ref().map(|(_, client)| client.clone());
        ChannelCredentials::new(Arc::clone(&self.token_source), to).with_tls(tls)
    }

    /// Returns a channel to the service with the role `to` at `addresses`, authenticated as this
    /// process.
    #[must_use]
    pub fn channel(&self, to: ServiceRole, addresses: impl Into<ServiceAddresses>) -> Channel {
        channel(addresses, Some(self.channel_credentials(to)))
    }

    /// Returns a channel to the git stores at `addresses`, authenticated as this process.
    #[must_use]
    pub fn store_channel(&self, addresses: &StoreAddresses) -> StoreChannel {
        StoreChannel::new(addresses.clone(), Some(self.channel_credentials(ServiceRole::GitSvc)))
    }

    /// Returns the options of a listener for other processes. If TLS is on, TCP connections need a
    /// certificate.
    #[must_use]
    pub fn listener_options(&self) -> ListenerOptions {
        let tls = self.tls.as_ref().map(|(server, _)| server.clone());
        ListenerOptions { transport: Transport::default().with_tls(tls), ..ListenerOptions::default() }
    }

    /// Returns the writer of the token cache; `None` without Redis. Its entries are signed by
    /// `signer` and live for `lifetime`.
    #[must_use]
    pub fn token_cache_writer(&self, signer: &Arc<Signer>, lifetime: Duration) -> Option<TokenCacheWriter> {
        let redis = self.redis.clone()?;
        Some(TokenCacheWriter::new(redis, Arc::clone(signer), lifetime, self.clock.clone()))
    }

    /// Returns the authentication layer of a service that validates tokens with `repo` (repo-svc).
    #[must_use]
    pub fn layer(&self, repo: &Channel) -> AuthLayer {
        self.layer_with(self.token_cache.clone(), Arc::new(repo.clone()))
    }

    /// Returns an authentication layer that validates tokens with `authority`, with an optional
    /// cache.
    #[must_use]
    pub fn layer_with(&self, cache: Option<TokenCache>, authority: Arc<dyn TokenAuthority>) -> AuthLayer {
        let tokens = TokenValidator::new(cache, authority, self.clock.clone());
        AuthLayer::new(tokens, Arc::clone(&self.verifier), self.service_verifier.clone(), self.clock.clone())
    }

    /// Returns the authorizer, which asks `repo` (repo-svc) for a grant if a request has none.
    #[must_use]
    pub fn authorizer(&self, repo: &Channel) -> Authorizer {
        Authorizer::new(repo.clone(), Arc::clone(&self.verifier))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Settings {
        #[command(flatten)]
        trust: CredentialArgs,
    }

    const BASE: [&str; 4] = ["test", "--service-key-file=k", "--service-public-keys=f", "--grant-public-key-file=p"];

    fn parse(flags: &[&str]) -> Result<CredentialArgs, clap::Error> {
        Settings::try_parse_from(BASE.iter().chain(flags)).map(|settings| settings.trust)
    }

    #[test]
    fn the_url_of_redis_comes_from_a_file_or_from_the_setting_itself() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("url");
        std::fs::write(&path, "redis://u:hunter2@h\n").unwrap();
        let file = format!("--redis-url-file={}", path.display());
        let trust = parse(&[&file]).unwrap();
        assert_eq!(trust.redis.url().unwrap().expose(), "redis://u:hunter2@h");
        assert!(!format!("{trust:?}").contains("hunter2"));
        let both = parse(&["--redis-url=redis://u:hunter2@h", &file]).unwrap_err().to_string();
        assert!(both.contains("-url-file") && both.contains("cannot be used with") && !both.contains("hunter2"));
    }

    #[test]
    fn the_files_of_tls_come_together() {
        let flags = ["--grpc-ca-file=a", "--grpc-certificate-file=b", "--grpc-key-file=c"];
        assert!(parse(&flags).unwrap().tls.files().is_some());
        assert!(parse(&[]).unwrap().tls.files().is_none());
        for missing in 0..flags.len() {
            let two: Vec<_> =
                flags.iter().enumerate().filter(|(place, _)| *place != missing).map(|(_, f)| *f).collect();
            assert!(parse(&two).is_err(), "{two:?}");
        }
    }
}
