//! Wiring: creates the clients, and from them the state of each part of the gateway.

use std::sync::Arc;
use std::time::Duration;

use ferrite_core::startup::StartError;
use ferrite_core::{Clock, Lifecycle};
use ferrite_listener::{ConnectionTable, QuotaLimits, Transport, TrustedProxies, fit_descriptors};
use ferrite_proto::ServiceRole;

use crate::api::{ApiParts, ApiState};
use crate::auth::credential_check;
use crate::blocking::BlockingPools;
use crate::config::Config;
use crate::git::GitHttpState;
use crate::http::body_limits::BodyLimits;
use crate::http::client_bounds::ClientBounds;
use crate::http::middleware::MiddlewareState;
use crate::pages::options::PageOptions;
use crate::ssh::SshState;
use crate::upstream::clients::Clients;
use crate::upstream::git_client::GitHttpClient;
use crate::upstream::reauthorize::Reauthorizer;
use ferrite_api_types::links::Links;

/// Share of the file descriptors for SSH connections, in eighths. Each may need a second one, to
/// git-svc.
const SSH_DESCRIPTOR_EIGHTHS: usize = 1;

/// State shared by all parts of the gateway. Handlers hold the state of their part instead.
#[derive(Clone)]
pub(crate) struct AppState {
    pub(crate) clients: Clients,
    pub(crate) git_client: GitHttpClient,
    pub(crate) links: Links,
    pub(crate) reauthorizer: Reauthorizer,
    pub(crate) allow_query_token: bool,
    pub(crate) trusted_proxies: TrustedProxies,
    pub(crate) client_bounds: ClientBounds,
    pub(crate) body_limits: BodyLimits,
    pub(crate) max_response_bytes: usize,
    pub(crate) blocking: BlockingPools,
    /// Longest time that a request waits for an import.
    pub(crate) import_wait: Duration,
    pub(crate) max_asset_bytes: u64,
    pub(crate) pages: PageOptions,
    pub(crate) life: Lifecycle,
}

impl AppState {
    /// Creates the clients. They connect on their first call.
    pub(crate) fn new(config: &Config, clock: &Clock, life: &Lifecycle) -> Result<Self, StartError> {
        let trust = config.process.trust.load(ServiceRole::Gateway, clock)?;
        let clients = Clients {
            repo: trust.channel(ServiceRole::RepoSvc, &config.repo_address),
            issue: trust.channel(ServiceRole::IssueSvc, &config.issue_address),
            hook: trust.channel(ServiceRole::HookSvc, &config.hook_address),
            git: trust.store_channel(&config.git_address),
        };
        let access = clients.access();
        Ok(Self {
            clients,
            git_client: GitHttpClient::new(config.git_address.clone(), trust.channel_credentials(ServiceRole::GitSvc)),
            links: Links::new(&config.site.public_url, &config.site.ssh),
            reauthorizer: Reauthorizer::new(access, Duration::from_secs(config.recheck_seconds.into()), life.clone()),
            allow_query_token: config.allow_query_token,
            trusted_proxies: config.trusted_proxies.clone(),
            client_bounds: ClientBounds {
                requests: config.connections.request_quota(),
                responses: config.connections.response_memory(),
            },
            body_limits: BodyLimits::new(
                config.bodies.large_bodies.into(),
                config.bodies.uploads.into(),
                config.body_pause,
            ),
            max_response_bytes: config.bodies.max_response_bytes(),
            blocking: BlockingPools::default(),
            import_wait: config.migration_wait,
            max_asset_bytes: config.max_asset_bytes,
            pages: config.pages.options()?,
            life: life.clone(),
        })
    }

    pub(crate) fn api(&self) -> ApiState {
        ApiState::new(ApiParts {
            clients: self.clients.clone(),
            git_client: self.git_client.clone(),
            reauthorizer: self.reauthorizer.clone(),
            links: self.links.clone(),
            body_limits: self.body_limits.checked_by(credential_check(&self.clients)),
            max_response_bytes: self.max_response_bytes,
            blocking: self.blocking.clone(),
            import_wait: self.import_wait,
            max_asset_bytes: self.max_asset_bytes,
            requires_account: self.pages.sign_in.is_for_all_reads(),
            life: self.life.clone(),
        })
    }

    pub(crate) fn git_http(&self) -> GitHttpState {
        GitHttpState {
            access: self.clients.access(),
            git_client: self.git_client.clone(),
            reauthorizer: self.reauthorizer.clone(),
            requires_account: self.pages.sign_in.is_for_all_reads(),
        }
    }

    pub(crate) fn middleware(&self) -> Arc<MiddlewareState> {
        Arc::new(MiddlewareState {
            links: self.links.clone(),
            allow_query_token: self.allow_query_token,
            trusted_proxies: self.trusted_proxies.clone(),
            client_bounds: self.client_bounds.clone(),
        })
    }

    pub(crate) fn ssh(&self, config: &Config, transport: Transport, life: &Lifecycle) -> Result<SshState, StartError> {
        let limits = QuotaLimits {
            total: fit_descriptors("ssh", config.ssh_connections.into(), SSH_DESCRIPTOR_EIGHTHS),
            per_address: config.ssh_connections_per_address.into(),
            per_network: config.ssh_connections_per_network.into(),
            ..QuotaLimits::NONE
        };
        Ok(SshState {
            access: self.clients.access(),
            git_client: self.git_client.clone(),
            reauthorizer: self.reauthorizer.clone(),
            limiter: config.process.trust.load(ServiceRole::Gateway, &Clock::system())?.limiter,
            life: life.clone(),
            sign_in_timeout: config.ssh_sign_in,
            idle_timeout: config.ssh_idle,
            transport,
            connections: ConnectionTable::new("ssh", limits),
        })
    }
}
