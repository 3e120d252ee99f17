//! State that all SSH connections share.

use std::time::Duration;

use ferrite_core::Lifecycle;
use ferrite_listener::{ConnectionTable, Transport};
use ferrite_proto::repo::access_service_client::AccessServiceClient;
use ferrite_rpc::grpc::Channel;
use ferrite_rpc::rate_limit::RateLimiter;

use crate::upstream::git_client::GitHttpClient;
use crate::upstream::reauthorize::Reauthorizer;

/// State of the listener and of its connections.
pub(crate) struct SshState {
    /// Resolves keys, and callers and their permissions.
    pub(crate) access: AccessServiceClient<Channel>,
    pub(crate) git_client: GitHttpClient,
    /// Asks about the callers of running commands.
    pub(crate) reauthorizer: Reauthorizer,
    /// Counts connections that failed to authenticate, by client address.
    pub(crate) limiter: RateLimiter,
    pub(crate) life: Lifecycle,
    /// Deadline for authentication.
    pub(crate) sign_in_timeout: Duration,
    /// Longest time of a connection without a command.
    pub(crate) idle_timeout: Duration,
    /// The PROXY protocol, below SSH.
    pub(crate) transport: Transport,
    /// Counts connections.
    pub(crate) connections: ConnectionTable,
}
