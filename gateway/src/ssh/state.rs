//! State that all SSH connections share, and state of one: its client, and what its timeouts depend on.

use std::sync::Arc;
use std::time::Duration;

use ferrite_core::Lifecycle;
use ferrite_listener::{ConnectionTable, Transport};
use ferrite_proto::repo::access_service_client::AccessServiceClient;
use ferrite_rpc::grpc::Channel;
use ferrite_rpc::rate_limit::RateLimiter;
use http::HeaderValue;
use tokio::sync::watch;

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

/// The owner of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KeyOwner {
    /// A user, by name.
    User(String),
    /// One repository or more, as a deploy key.
    Repositories,
}

/// A key that an account or a repository has, as of the authentication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key {
    /// SHA-256 fingerprint, as OpenSSH writes it.
    pub(super) fingerprint: String,
    pub(super) owner: KeyOwner,
}

/// The client of a channel.
pub(super) struct SshClient {
    pub(super) key: Key,
    /// The address under which the client is counted.
    pub(super) address: Option<HeaderValue>,
}

/// State of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ConnectionState {
    /// True once the client has offered a key.
    pub(super) has_offered_key: bool,
    /// True once the client has authenticated.
    pub(super) is_authenticated: bool,
    /// Running commands.
    pub(super) commands: usize,
}

/// Publishes the state of a connection; cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct ConnectionTracker(Arc<watch::Sender<ConnectionState>>);

/// Counts one running command until it is dropped.
pub(super) struct CommandGuard<'a>(&'a ConnectionTracker);

impl ConnectionTracker {
    /// Makes the tracker of a new connection, and a receiver of its state.
    pub(super) fn new() -> (Self, watch::Receiver<ConnectionState>) {
        let (sender, receiver) = watch::channel(ConnectionState::default());
        (Self(Arc::new(sender)), receiver)
    }

    pub(super) fn key_offered(&self) {
        self.0.send_modify(|state| state.has_offered_key = true);
    }

    pub(super) fn authenticated(&self) {
        self.0.send_modify(|state| state.is_authenticated = true);
    }

    /// Counts a command that starts.
    pub(super) fn start_command(&self) -> CommandGuard<'_> {
        self.0.send_modify(|state| state.commands += 1);
        CommandGuard(self)
    }
}

impl Drop for CommandGuard<'_> {
    fn drop(&mut self) {
        self.0.0.send_modify(|state| state.commands -= 1);
    }
}
