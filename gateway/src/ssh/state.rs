//! State that all SSH connections share.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ferrite_kit::Lifecycle;
use ferrite_kit::grpc::Channel;
use ferrite_kit::rate_limit::RateLimiter;
use ferrite_proto::repo::access_service_client::AccessServiceClient;
use tokio::sync::Semaphore;

use crate::upstream::git_client::GitHttpClient;

/// State of the listener and of its connections.
pub(crate) struct SshState {
    /// Resolves keys, and callers and their permissions.
    pub(super) access: AccessServiceClient<Channel>,
    pub(super) git_client: GitHttpClient,
    /// Time after which the caller of a running command is authorized again.
    pub(super) reauthorize_interval: Duration,
    /// Counts connections that failed to authenticate, by client address.
    pub(super) limiter: RateLimiter,
    pub(super) life: Lifecycle,
    pub(super) limits: ConnectionLimits,
    /// Permits for connections.
    pub(super) connections: Arc<Semaphore>,
    pub(super) connections_per_ip: Mutex<HashMap<IpAddr, u16>>,
}

/// Limits on connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionLimits {
    /// Most connections at once.
    pub(crate) max_connections: u16,
    /// Most connections at once of one IPv4 address or IPv6 network.
    pub(crate) max_connections_per_ip: u16,
    /// Deadline for authentication.
    pub(crate) sign_in_timeout: Duration,
    /// Longest time of a connection without a command.
    pub(crate) idle_timeout: Duration,
}

impl SshState {
    /// Makes the state of a listener without connections.
    pub(crate) fn new(
        access: AccessServiceClient<Channel>,
        git_client: GitHttpClient,
        reauthorize_interval: Duration,
        limiter: RateLimiter,
        limits: ConnectionLimits,
        life: Lifecycle,
    ) -> Self {
        let connections = Arc::new(Semaphore::new(limits.max_connections.into()));
        let connections_per_ip = Mutex::default();
        Self { access, git_client, reauthorize_interval, limiter, life, limits, connections, connections_per_ip }
    }
}
