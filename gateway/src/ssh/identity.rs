//! The key of a client and its owner, the client of a channel, and the state of a connection that decides about its timeouts.

use std::sync::Arc;

use http::HeaderValue;
use tokio::sync::watch;

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
