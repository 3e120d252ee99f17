//! What a client may say on its connection, and what it is answered.

use std::collections::HashMap;
use std::sync::Arc;

use ferrite_proto::error::reason;
use ferrite_proto::repo::ResolveKeyRequest;
use http::HeaderValue;
use russh::keys::{Algorithm, HashAlg, PublicKey};
use russh::server::{Auth, ChannelOpenHandle, Handler, Msg, PublicKeyOffer, Session, VerifiedPublicKey};
use russh::{Channel, ChannelId, ChannelOpenFailure, Pty};
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;
use tonic::Code;

use super::Door;
use super::channel::{self, Guest, Wish};
use super::command::Command;
use crate::git::request::is_protocol;

/// Keys that one connection may offer.
const MAX_OFFERS: u32 = 20;
/// Channels of one connection, for those who share one among their commands.
const MAX_CHANNELS: usize = 10;
/// The one variable of the environment that counts for something.
const GIT_PROTOCOL: &str = "GIT_PROTOCOL";

/// Why a connection ends before its time.
#[derive(Debug, thiserror::Error)]
pub(super) enum VisitError {
    /// The protocol, or the network.
    #[error(transparent)]
    Ssh(#[from] russh::Error),
    /// Nobody can say now whose a key is.
    #[error("keys cannot be checked now")]
    Unavailable,
    /// The client tries too many keys.
    #[error("too many keys were offered")]
    TooManyKeys,
}

/// Whom a key stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Who {
    /// A user, by name.
    User(String),
    /// Repositories.
    DeployKey,
}

/// A key that somebody has added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key {
    /// Its fingerprint, as OpenSSH writes it.
    pub(super) fingerprint: String,
    /// Whom it stands for, as of the sign-in.
    pub(super) who: Who,
}

/// What is known of a connection from outside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    /// Whether a key was offered.
    pub(super) has_tried: bool,
    /// Whether the client has signed in.
    pub(super) is_in: bool,
    /// Commands that run.
    pub(super) commands: usize,
}

/// Tells whoever watches over a connection what happens on it.
#[derive(Clone, Debug)]
pub(super) struct Presence(Arc<watch::Sender<State>>);

/// A command that runs, until dropped.
pub(super) struct Working<'a>(&'a Presence);

impl Presence {
    /// Of a connection on which nothing has happened yet.
    pub(super) fn new() -> (Self, watch::Receiver<State>) {
        let (sender, receiver) = watch::channel(State::default());
        (Self(Arc::new(sender)), receiver)
    }

    /// A command runs.
    pub(super) fn work(&self) -> Working<'_> {
        self.0.send_modify(|state| state.commands += 1);
        Working(self)
    }
}

impl Drop for Working<'_> {
    fn drop(&mut self) {
        self.0.0.send_modify(|state| state.commands -= 1);
    }
}

/// A channel that waits for its command.
struct Waiting {
    wish: oneshot::Sender<Wish>,
    protocol: Option<HeaderValue>,
}

/// A client.
pub(super) struct Visitor {
    door: Arc<Door>,
    client: Option<HeaderValue>,
    presence: Presence,
    cut: CancellationToken,
    offers: u32,
    offered: Option<Key>,
    key: Option<Key>,
    /// Channels that are open; those that have their command have nothing here.
    channels: HashMap<ChannelId, Option<Waiting>>,
}

impl Visitor {
    /// A client that has not said anything yet.
    pub(super) fn new(
        door: Arc<Door>,
        client: Option<HeaderValue>,
        presence: Presence,
        cut: CancellationToken,
    ) -> Self {
        Self { door, client, presence, cut, offers: 0, offered: None, key: None, channels: HashMap::new() }
    }

    /// Whose a key is; `None` for strangers, and for signatures that are not safe any more.
    async fn find(&mut self, key: &PublicKey, algorithm: &Algorithm) -> Result<Option<Key>, VisitError> {
        self.presence.0.send_modify(|state| state.has_tried = true);
        if matches!(algorithm, Algorithm::Dsa | Algorithm::Rsa { hash: None }) {
            return Ok(None);
        }
        let fingerprint = key.fingerprint(HashAlg::Sha256).to_string();
        if let Some(offered) = &self.offered
            && offered.fingerprint == fingerprint
        {
            return Ok(Some(offered.clone()));
        }
        self.offers += 1;
        if self.offers > MAX_OFFERS {
            return Err(VisitError::TooManyKeys);
        }
        let mut question = tonic::Request::new(ResolveKeyRequest { fingerprint: fingerprint.clone() });
        channel::annotate(&mut question, self.client.as_ref(), &uuid::Uuid::new_v4().to_string());
        match self.door.access.clone().resolve_key(question).await {
            Ok(answer) => {
                let who = match answer.into_inner().identity {
                    Some(identity) => Who::User(identity.username),
                    None => Who::DeployKey,
                };
                self.offered = Some(Key { fingerprint, who });
                Ok(self.offered.clone())
            }
            Err(status) if status.code() == Code::Unauthenticated && reason(&status).is_some() => {
                tracing::debug!(key = fingerprint, "a key that nobody has added");
                Ok(None)
            }
            Err(status) => {
                tracing::warn!(code = ?status.code(), "cannot ask repo-svc about a key");
                Err(VisitError::Unavailable)
            }
        }
    }

    /// Gives a channel its command, unless it has one.
    fn start(&mut self, id: ChannelId, wish: impl FnOnce(Option<HeaderValue>) -> Wish) -> bool {
        let waiting = self.channels.get_mut(&id).and_then(Option::take);
        waiting.is_some_and(|waiting| waiting.wish.send(wish(waiting.protocol)).is_ok())
    }
}

fn answer(session: &mut Session, id: ChannelId, is_granted: bool) -> Result<(), VisitError> {
    Ok(if is_granted { session.channel_success(id) } else { session.channel_failure(id) }?)
}

impl Handler for Visitor {
    type Error = VisitError;

    async fn auth_publickey_offered(&mut self, _: &str, offer: PublicKeyOffer<'_>) -> Result<Auth, VisitError> {
        let found = self.find(offer.public_key, offer.algorithm).await?;
        Ok(if found.is_some() { Auth::Accept } else { Auth::reject() })
    }

    async fn auth_publickey(&mut self, _: &str, key: VerifiedPublicKey<'_>) -> Result<Auth, VisitError> {
        self.key = self.find(key.public_key, key.algorithm).await?;
        if self.key.is_none() {
            return Ok(Auth::reject());
        }
        self.presence.0.send_modify(|state| state.is_in = true);
        Ok(Auth::Accept)
    }

    async fn channel_open_session(
        &mut self,
        channel: Channel<Msg>,
        reply: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), VisitError> {
        let Some(key) = self.key.clone() else {
            reply.reject(ChannelOpenFailure::AdministrativelyProhibited).await;
            return Ok(());
        };
        if self.channels.len() >= MAX_CHANNELS {
            reply.reject(ChannelOpenFailure::ResourceShortage).await;
            return Ok(());
        }
        let (wish, wait) = oneshot::channel();
        self.channels.insert(channel.id(), Some(Waiting { wish, protocol: None }));
        let guest = Guest { key, client: self.client.clone() };
        let attend =
            channel::attend(Arc::clone(&self.door), guest, channel, wait, self.presence.clone(), self.cut.clone());
        self.door.life.spawn("ssh channel", attend);
        reply.accept().await;
        Ok(())
    }

    async fn channel_close(&mut self, id: ChannelId, _: &mut Session) -> Result<(), VisitError> {
        self.channels.remove(&id);
        Ok(())
    }

    async fn env_request(
        &mut self,
        id: ChannelId,
        name: &str,
        value: &str,
        session: &mut Session,
    ) -> Result<(), VisitError> {
        let value = (name == GIT_PROTOCOL && is_protocol(value.as_bytes()))
            .then(|| HeaderValue::from_str(value).ok())
            .flatten();
        let is_taken = match (self.channels.get_mut(&id), value) {
            (Some(Some(waiting)), Some(value)) => {
                waiting.protocol = Some(value);
                true
            }
            _ => false,
        };
        answer(session, id, is_taken)
    }

    async fn exec_request(&mut self, id: ChannelId, line: &[u8], session: &mut Session) -> Result<(), VisitError> {
        let is_started = self.start(id, |protocol| Wish::Command(Command::parse(line), protocol));
        answer(session, id, is_started)
    }

    async fn shell_request(&mut self, id: ChannelId, session: &mut Session) -> Result<(), VisitError> {
        let is_started = self.start(id, |_| Wish::Shell);
        answer(session, id, is_started)
    }

    async fn subsystem_request(&mut self, id: ChannelId, _: &str, session: &mut Session) -> Result<(), VisitError> {
        answer(session, id, false)
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
    ) -> Result<(), VisitError> {
        answer(session, id, false)
    }

    async fn x11_request(
        &mut self,
        id: ChannelId,
        _: bool,
        _: &str,
        _: &str,
        _: u32,
        session: &mut Session,
    ) -> Result<(), VisitError> {
        answer(session, id, false)
    }
}
