//! The keys of a process, and the authentication and channels that are built from them.
//!
//! Not here: the key that signs grants, which only repo-svc has.

use std::sync::Arc;

use ferrite_proto::grant::Verifier;

use crate::auth::{Access, AuthLayer, TokenAuthority, TokenCache, TokenValidator};
use crate::clock::Clock;
use crate::config::CredentialArgs;
use crate::grpc::{Channel, channel};
use crate::net::Address;
use crate::rate_limit::RateLimiter;
use crate::redis::RedisClient;
use crate::service_key::{ServiceKey, ServiceTokenSource};
use crate::startup::StartError;

/// Keys of a process, and the caches and counters that authentication uses.
#[derive(Clone)]
pub struct ServiceCredentials {
    /// Verifies grants.
    pub verifier: Arc<Verifier>,
    /// Verifies the tokens of other processes.
    pub key: ServiceKey,
    /// Makes the tokens by which this process proves its role to others.
    pub token_source: Arc<ServiceTokenSource>,
    /// Validated tokens in Redis, if the process uses Redis.
    pub token_cache: Option<TokenCache>,
    /// Counts events per key, in Redis if the process uses Redis.
    pub limiter: RateLimiter,
    clock: Clock,
}

impl std::fmt::Debug for ServiceCredentials {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("ServiceCredentials").finish_non_exhaustive()
    }
}

impl CredentialArgs {
    /// Reads the keys of a process with the given role.
    ///
    /// # Errors
    /// When a key file cannot be read or holds no such key, or the URL of Redis is malformed.
    pub fn load(&self, role: &'static str, clock: &Clock) -> Result<ServiceCredentials, StartError> {
        let file = &self.grant_public_key_file;
        let pem = std::fs::read(file)
            .map_err(|error| StartError::Other(format!("grant key file `{}`: {error}", file.display())))?;
        let verifier = Verifier::from_pem(&pem)
            .map_err(|source| StartError::GrantKey { file: file.display().to_string(), source })?;
        let key = ServiceKey::read(&self.service_key_file)?;
        let redis = self.redis_url.as_ref().map(|url| RedisClient::new(url, clock.clone())).transpose();
        let redis = redis.map_err(|_| StartError::Redis)?;
        Ok(ServiceCredentials {
            verifier: Arc::new(verifier),
            token_source: Arc::new(ServiceTokenSource::new(key.clone(), role, clock.clone())),
            key,
            token_cache: redis.clone().map(|redis| TokenCache::over(redis, self.token_cache)),
            limiter: RateLimiter::new(redis, clock.clone()),
            clock: clock.clone(),
        })
    }
}

impl ServiceCredentials {
    /// Returns a channel to another service that proves the role of this process.
    #[must_use]
    pub fn channel(&self, address: &Address) -> Channel {
        channel(address, Some(Arc::clone(&self.token_source)))
    }

    /// Returns the authentication layer of a service that validates tokens at `repo` (repo-svc).
    #[must_use]
    pub fn layer(&self, repo: &Channel) -> AuthLayer {
        self.layer_with(self.token_cache.clone(), Arc::new(repo.clone()))
    }

    /// Returns an authentication layer that validates tokens at `authority`, with an optional cache.
    #[must_use]
    pub fn layer_with(&self, cache: Option<TokenCache>, authority: Arc<dyn TokenAuthority>) -> AuthLayer {
        let tokens = TokenValidator::new(cache, authority, self.clock.clone());
        AuthLayer::new(tokens, Arc::clone(&self.verifier), self.key.clone(), self.clock.clone())
    }

    /// Returns the authorization by grants, which asks `repo` (repo-svc) for the grant of a request that brings none.
    #[must_use]
    pub fn access(&self, repo: &Channel) -> Access {
        Access::new(repo.clone(), Arc::clone(&self.verifier))
    }
}
