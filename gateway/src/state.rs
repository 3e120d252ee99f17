//! Wiring: the clients and settings of the gateway, of which the state of each part is made.

use std::sync::Arc;
use std::time::Duration;

use ferrite_kit::startup::StartError;
use ferrite_kit::{Clock, Lifecycle};

use crate::api::ApiState;
use crate::blocking::BlockingPools;
use crate::config::Config;
use crate::git::GitHttpState;
use crate::http::body_limits::BodyLimits;
use crate::http::middleware::MiddlewareState;
use crate::ssh::{ConnectionLimits, SshState};
use crate::upstream::capabilities::CapabilitiesCache;
use crate::upstream::clients::Clients;
use crate::upstream::git_client::GitHttpClient;
use ferrite_rest::links::Links;

/// Most large request bodies in memory at once.
const MAX_LARGE_BODIES: usize = 8;

/// Everything that parts of the gateway share. No handler holds it: each has the state of its own part.
#[derive(Clone)]
pub(crate) struct AppState {
    pub(crate) clients: Clients,
    pub(crate) git_client: GitHttpClient,
    pub(crate) capabilities: CapabilitiesCache,
    pub(crate) links: Links,
    /// Time after which the caller of a long transfer is authorized again.
    pub(crate) reauthorize_interval: Duration,
    /// True if the API accepts a token in the query.
    pub(crate) allow_query_token: bool,
    pub(crate) body_limits: BodyLimits,
    pub(crate) blocking: BlockingPools,
    /// Longest time for which a request waits for a migration.
    pub(crate) migration_wait: Duration,
    /// Bytes of the largest file of a release.
    pub(crate) max_asset_bytes: u64,
    pub(crate) life: Lifecycle,
}

impl AppState {
    /// Makes the clients that `config` describes. They connect on their first call.
    ///
    /// # Errors
    /// When a key file cannot be used.
    pub(crate) fn new(config: &Config, clock: &Clock, life: &Lifecycle) -> Result<Self, StartError> {
        let trust = config.trust.load("gateway", clock)?;
        let clients = Clients {
            repo: trust.channel(&config.repo_address),
            issue: trust.channel(&config.issue_address),
            hook: trust.channel(&config.hook_address),
            git: trust.channel(&config.git_address),
        };
        Ok(Self {
            clients,
            git_client: GitHttpClient::new(config.git_address.clone(), Arc::clone(&trust.token_source)),
            capabilities: CapabilitiesCache::default(),
            links: Links::new(&config.public_url, &config.ssh),
            reauthorize_interval: Duration::from_secs(config.recheck_seconds.into()),
            allow_query_token: config.allow_query_token,
            body_limits: BodyLimits::new(MAX_LARGE_BODIES, config.body_pause),
            blocking: BlockingPools::default(),
            migration_wait: config.migration_wait,
            max_asset_bytes: config.max_asset_bytes,
            life: life.clone(),
        })
    }

    /// Returns the state of the API.
    pub(crate) fn api(&self) -> ApiState {
        ApiState {
            clients: self.clients.clone(),
            git_client: self.git_client.clone(),
            links: self.links.clone(),
            body_limits: self.body_limits.clone(),
            blocking: self.blocking.clone(),
            migration_wait: self.migration_wait,
            max_asset_bytes: self.max_asset_bytes,
            life: self.life.clone(),
        }
    }

    /// Returns the state of git over HTTP.
    pub(crate) fn git_http(&self) -> GitHttpState {
        GitHttpState {
            access: self.clients.access(),
            git_client: self.git_client.clone(),
            reauthorize_interval: self.reauthorize_interval,
            capabilities: self.capabilities.clone(),
        }
    }

    /// Returns the state of the middleware.
    pub(crate) fn middleware(&self) -> MiddlewareState {
        MiddlewareState { links: self.links.clone(), allow_query_token: self.allow_query_token }
    }

    /// Returns the state of git over SSH.
    ///
    /// # Errors
    /// When a key file cannot be used.
    pub(crate) fn ssh(&self, config: &Config, life: &Lifecycle) -> Result<SshState, StartError> {
        let limits = ConnectionLimits {
            max_connections: config.ssh_connections,
            max_connections_per_ip: config.ssh_connections_per_address,
            sign_in_timeout: config.ssh_sign_in,
            idle_timeout: config.ssh_idle,
        };
        Ok(SshState::new(
            self.clients.access(),
            self.git_client.clone(),
            self.reauthorize_interval,
            config.trust.load("gateway", &Clock::system())?.limiter,
            limits,
            life.clone(),
        ))
    }
}
