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

pub(crate) struct SshState {
    pub(crate) access: AccessServiceClient<Channel>,
    pub(crate) git_client: GitHttpClient,
    pub(crate) reauthorizer: Reauthorizer,
    /// Failed authentications per client address.
    pub(crate) limiter: RateLimiter,
    pub(crate) life: Lifecycle,
    pub(crate) sign_in_timeout: Duration,
    /// Time limit of a connection without a command.
    pub(crate) idle_timeout: Duration,
    pub(crate) transport: Transport,
    pub(crate) connections: ConnectionTable,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KeyOwner {
    User(String),
    /// A deploy key, of one or more repositories.
    Repositories,
}

/// A registered key, as of authentication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key {
    /// SHA-256 fingerprint in OpenSSH's format.
    pub(super) fingerprint: String,
    pub(super) owner: KeyOwner,
}

pub(super) struct SshClient {
    pub(super) key: Key,
    /// The address under which the client is counted.
    pub(super) address: Option<HeaderValue>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ConnectionState {
    pub(super) has_offered_key: bool,
    pub(super) is_authenticated: bool,
    pub(super) commands: usize,
}

#[derive(Clone, Debug)]
pub(super) struct ConnectionTracker(Arc<watch::Sender<ConnectionState>>);

/// Counts a command as running until dropped.
pub(super) struct CommandGuard<'a>(&'a ConnectionTracker);

impl ConnectionTracker {
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
