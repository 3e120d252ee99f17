//! Handles the SSH messages of a connection: authentication, and requests on its channels. Each
//! command runs in the task of its channel ([`super::channel`]).

use std::collections::HashMap;
use std::sync::Arc;

use ferrite_proto::error::reason;
use ferrite_proto::git_transport::GitProtocol;
use ferrite_proto::repo::ResolveKeyRequest;
use http::HeaderValue;
use russh::keys::{Algorithm, HashAlg, PublicKey};
use russh::server::{Auth, ChannelOpenHandle, Handler, Msg, PublicKeyOffer, Session, VerifiedPublicKey};
use russh::{Channel, ChannelId, ChannelOpenFailure, Pty};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tonic::Code;

use super::channel::{self, ChannelRequest};
use super::command::Command;
use super::state::{ConnectionTracker, Key, KeyOwner, SshClient, SshState};
use crate::upstream::client_headers::ClientHeaders;

const MAX_OFFERED_KEYS: u32 = 20;
/// Open channels per connection; clients can run several commands over one.
const MAX_CHANNELS: usize = 10;
/// The only environment variable that is accepted.
const GIT_PROTOCOL: &str = "GIT_PROTOCOL";

#[derive(Debug, thiserror::Error)]
pub(super) enum SshError {
    #[error(transparent)]
    Ssh(#[from] russh::Error),
    /// repo-svc cannot look up the owner of a key.
    #[error("keys cannot be verified at the moment")]
    Unavailable,
    #[error("too many keys offered")]
    TooManyKeys,
}

/// An open channel without a command.
struct PendingChannel {
    request: oneshot::Sender<ChannelRequest>,
    protocol: Option<GitProtocol>,
}

pub(super) struct ConnectionHandler {
    state: Arc<SshState>,
    client_address: Option<HeaderValue>,
    tracker: ConnectionTracker,
    /// Stops the channels of the connection.
    cancelled: CancellationToken,
    offered_keys: u32,
    /// The last key found by repo-svc, so that the signature after the offer needs no second
    /// lookup.
    resolved_key: Option<Key>,
    key: Option<Key>,
    /// Open channels; `None` once the command has started.
    channels: HashMap<ChannelId, Option<PendingChannel>>,
}

impl ConnectionHandler {
    pub(super) fn new(
        state: Arc<SshState>,
        client_address: Option<HeaderValue>,
        tracker: ConnectionTracker,
        cancelled: CancellationToken,
    ) -> Self {
        Self {
            state,
            client_address,
            tracker,
            cancelled,
            offered_keys: 0,
            resolved_key: None,
            key: None,
            channels: HashMap::new(),
        }
    }

    /// Looks up a key in repo-svc; `None` for a key without an owner and for unsafe algorithms.
    async fn resolve_key(&mut self, key: &PublicKey, algorithm: &Algorithm) -> Result<Option<Key>, SshError> {
        self.tracker.key_offered();
        if matches!(algorithm, Algorithm::Dsa | Algorithm::Rsa { hash: None }) {
            return Ok(None);
        }
        let fingerprint = key.fingerprint(HashAlg::Sha256).to_string();
        if let Some(resolved) = &self.resolved_key
            && resolved.fingerprint == fingerprint
        {
            return Ok(Some(resolved.clone()));
        }
        self.offered_keys += 1;
        if self.offered_keys > MAX_OFFERED_KEYS {
            return Err(SshError::TooManyKeys);
        }
        let mut request = tonic::Request::new(ResolveKeyRequest { fingerprint: fingerprint.clone() });
        let client = ClientHeaders::new(&uuid::Uuid::new_v4().to_string(), self.client_address.clone());
        client.insert_into(request.metadata_mut().as_mut());
        match self.state.access.clone().resolve_key(request).await {
            Ok(response) => {
                let owner = match response.into_inner().identity {
                    Some(identity) => KeyOwner::User(identity.username),
                    None => KeyOwner::Repositories,
                };
                self.resolved_key = Some(Key { fingerprint, owner });
                Ok(self.resolved_key.clone())
            }
            Err(status) if status.code() == Code::Unauthenticated && reason(&status).is_some() => {
                tracing::debug!(key = fingerprint, "SSH key without an owner");
                Ok(None)
            }
            Err(status) => {
                tracing::warn!(code = ?status.code(), "cannot look up an SSH key in repo-svc");
                Err(SshError::Unavailable)
            }
        }
    }

    /// Starts the command of a channel. Returns false if the channel already had one.
    fn start(&mut self, id: ChannelId, request: impl FnOnce(Option<GitProtocol>) -> ChannelRequest) -> bool {
        let pending = self.channels.get_mut(&id).and_then(Option::take);
        pending.is_some_and(|pending| pending.request.send(request(pending.protocol)).is_ok())
    }
}

fn reply(session: &mut Session, id: ChannelId, is_granted: bool) -> Result<(), SshError> {
    Ok(if is_granted { session.channel_success(id) } else { session.channel_failure(id) }?)
}

impl Handler for ConnectionHandler {
    type Error = SshError;

    async fn auth_publickey_offered(&mut self, _: &str, offer: PublicKeyOffer<'_>) -> Result<Auth, SshError> {
        let resolved = self.resolve_key(offer.public_key, offer.algorithm).await?;
        Ok(if resolved.is_some() { Auth::Accept } else { Auth::reject() })
    }

    async fn auth_publickey(&mut self, _: &str, key: VerifiedPublicKey<'_>) -> Result<Auth, SshError> {
        self.key = self.resolve_key(key.public_key, key.algorithm).await?;
        if self.key.is_none() {
            return Ok(Auth::reject());
        }
        self.tracker.authenticated();
        Ok(Auth::Accept)
    }

    async fn channel_open_session(
        &mut self,
        channel: Channel<Msg>,
        reply: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), SshError> {
        let Some(key) = self.key.clone() else {
            reply.reject(ChannelOpenFailure::AdministrativelyProhibited).await;
            return Ok(());
        };
        if self.channels.len() >= MAX_CHANNELS {
            reply.reject(ChannelOpenFailure::ResourceShortage).await;
            return Ok(());
        }
        let (request, receiver) = oneshot::channel();
        self.channels.insert(channel.id(), Some(PendingChannel { request, protocol: None }));
        let client = SshClient { key, address: self.client_address.clone() };
        let (tracker, cancelled) = (self.tracker.clone(), self.cancelled.clone());
        let served = channel::serve(Arc::clone(&self.state), client, channel, receiver, tracker, cancelled);
        self.state.life.spawn("ssh channel", served);
        reply.accept().await;
        Ok(())
    }

    async fn channel_close(&mut self, id: ChannelId, _: &mut Session) -> Result<(), SshError> {
        self.channels.remove(&id);
        Ok(())
    }

    async fn env_request(
        &mut self,
        id: ChannelId,
        name: &str,
        value: &str,
        session: &mut Session,
    ) -> Result<(), SshError> {
        let protocol = if name == GIT_PROTOCOL { GitProtocol::parse(value.as_bytes()) } else { None };
        let is_accepted = match (self.channels.get_mut(&id), protocol) {
            (Some(Some(pending)), Some(protocol)) => {
                pending.protocol = Some(protocol);
                true
            }
            _ => false,
        };
        reply(session, id, is_accepted)
    }

    async fn exec_request(&mut self, id: ChannelId, line: &[u8], session: &mut Session) -> Result<(), SshError> {
        let is_started = self.start(id, |protocol| ChannelRequest::Command(Command::parse(line), protocol));
        reply(session, id, is_started)
    }

    async fn shell_request(&mut self, id: ChannelId, session: &mut Session) -> Result<(), SshError> {
        let is_started = self.start(id, |_| ChannelRequest::Shell);
        reply(session, id, is_started)
    }

    async fn subsystem_request(&mut self, id: ChannelId, _: &str, session: &mut Session) -> Result<(), SshError> {
        reply(session, id, false)
    }

    async fn pty_request(
        &mut self,
        id: ChannelId,
        _: &str,
        _: u32,
        _: u32,
        _: u32,
        _: u32,
        _: &[(Pty, u32)],
        session: &mut Session,
    ) -> Result<(), SshError> {
        reply(session, id, false)
    }

    async fn x11_request(
        &mut self,
        id: ChannelId,
        _: bool,
        _: &str,
        _: &str,
        _: u32,
        session: &mut Session,
    ) -> Result<(), SshError> {
        reply(session, id, false)
    }
}
