//! State that all SSH connections share.

use std::time::Duration;

use ferrite_kit::Lifecycle;
use ferrite_kit::grpc::Channel;
use ferrite_kit::rate_limit::RateLimiter;
use ferrite_kit::server::{ConnectionBounds, ConnectionTable, Transport};
use ferrite_proto::repo::access_service_client::AccessServiceClient;

use crate::upstream::git_client::GitHttpClient;
use crate::upstream::reauthorize::Reauthorizer;

/// State of the listener and of its connections.
pub(crate) struct SshState {
    /// Resolves keys, and callers and their permissions.
    pub(super) access: AccessServiceClient<Channel>,
    pub(super) git_client: GitHttpClient,
    /// Asks about the callers of running commands.
    pub(super) reauthorizer: Reauthorizer,
    /// Counts connections that failed to authenticate, by client address.
    pub(super) limiter: RateLimiter,
    pub(super) life: Lifecycle,
    pub(super) limits: ConnectionLimits,
    /// The PROXY protocol, below SSH.
    pub(super) transport: Transport,
    /// Counts connections.
    pub(super) connections: ConnectionTable,
}

/// Limits on connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionLimits {
    /// Most connections at once.
    pub(crate) connections: ConnectionBounds,
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
        reauthorizer: Reauthorizer,
        limiter: RateLimiter,
        limits: ConnectionLimits,
        transport: Transport,
        life: Lifecycle,
    ) -> Self {
        let connections = ConnectionTable::new("ssh", limits.connections);
        Self { access, git_client, reauthorizer, limiter, life, limits, transport, connections }
    }
}
