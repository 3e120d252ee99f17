//! One channel: from its opening to the end of the one command that it is for.

use std::sync::Arc;
use std::time::Instant;

use ferrite_proto::metadata;
use ferrite_proto::repo::ResolveAccessRequest;
use http::HeaderValue;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use russh::server::Msg;
use russh::{Channel, ChannelMsg, ChannelReadHalf, ChannelWriteHalf};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::Door;
use super::command::{Command, Service};
use super::error::Refusal;
use super::handler::{Key, Presence, Who};
use super::session::{self, End, Opening};
use crate::git::target;
use crate::upstream::reauthorize::{Refused, until_refused};

/// The status of everything that we end ourselves.
const REFUSED: u32 = 1;
/// Packets that are kept of a client that does not wait for git.
const MAX_AHEAD: usize = 16;

/// What a channel is asked for.
pub(super) enum Wish {
    /// A shell.
    Shell,
    /// A command, with the protocol that was asked for before it.
    Command(Result<Command, Refusal>, Option<HeaderValue>),
}

/// Who asks.
pub(super) struct Guest {
    /// The key that was shown.
    pub(super) key: Key,
    /// Where from, as far as it is counted.
    pub(super) client: Option<HeaderValue>,
}

/// Serves a channel until its command has ended, the client is gone, or the connection is cut.
pub(super) async fn attend(
    door: Arc<Door>,
    guest: Guest,
    channel: Channel<Msg>,
    wish: oneshot::Receiver<Wish>,
    presence: Presence,
    cut: CancellationToken,
) {
    let (mut read, write) = channel.split();
    let served = async {
        let Some(wish) = wait(&mut read, wish).await else { return };
        let _working = presence.work();
        match wish {
            Wish::Shell => {
                let greeting = match &guest.key.who {
                    Who::User(name) => format!("Hi {name}! You are signed in, but Ferrite provides no shell."),
                    Who::DeployKey => {
                        "Hi! You are signed in with a deploy key, but Ferrite provides no shell.".to_owned()
                    }
                };
                session::farewell(&write, Some((&greeting, false)), REFUSED).await;
            }
            Wish::Command(command, protocol) => {
                if let Some((line, status)) = run(&door, &guest, command, protocol, &mut read, &write).await {
                    let line = line.map(|refusal| format!("Ferrite: {refusal}"));
                    session::farewell(&write, line.as_deref().map(|line| (line, true)), status).await;
                }
            }
        }
    };
    tokio::select! {
        () = served => {}
        () = cut.cancelled() => {}
    }
}

/// Runs a command to its end; what its user is to hear then, and the status. Nothing when the client left before it began.
async fn run(
    door: &Door,
    guest: &Guest,
    command: Result<Command, Refusal>,
    protocol: Option<HeaderValue>,
    read: &mut ChannelReadHalf,
    write: &ChannelWriteHalf<Msg>,
) -> Option<(Option<Refusal>, u32)> {
    let (start, request_id) = (Instant::now(), uuid::Uuid::new_v4().to_string());
    let service = command.as_ref().map_or("none", |command| command.service.name());
    let mut ahead = Vec::new();
    // A client that leaves while it waits gives its place up.
    let opened = tokio::select! {
        opened = open(door, guest, command, protocol, &request_id) => opened,
        () = gone(read, &mut ahead) => return None,
    };
    let (result, line, status) = match opened {
        Ok((session, mut refused)) => tokio::select! {
            end = session::exchange(session, ahead, read, write) => ended(end),
            status = &mut refused => {
                let refusal = Refusal::of_status(&status, matches!(guest.key.who, Who::User(_)));
                ("revoked", Some(refusal), REFUSED)
            }
        },
        Err(refusal) => (refusal.name(), Some(refusal), REFUSED),
    };
    metrics::counter!("ferrite_ssh_commands_total", "service" => service, "result" => result).increment(1);
    let duration_ms = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
    let key = guest.key.fingerprint.as_str();
    tracing::info!(request_id, service, result, duration_ms, key, "a command over SSH");
    Some((line, status))
}

/// How an exchange that came to its end is told of.
fn ended(end: End) -> (&'static str, Option<Refusal>, u32) {
    match end {
        End::Status(0) => ("ok", None, 0),
        End::Status(status) => ("failed", None, status.into()),
        End::Gone => ("gone", None, REFUSED),
        End::Lost => ("lost", Some(Refusal::Interrupted), REFUSED),
    }
}

/// What the client wants of its channel; nothing when it leaves. What it sends before that is dropped.
async fn wait(read: &mut ChannelReadHalf, wish: oneshot::Receiver<Wish>) -> Option<Wish> {
    loop {
        match read.wait().await? {
            ChannelMsg::Close => return None,
            // The visitor hears of it right after this.
            ChannelMsg::Exec { .. } | ChannelMsg::RequestShell { .. } => return wish.await.ok(),
            _ => {}
        }
    }
}

/// Returns when the client has left the channel. Keeps what it sends ahead, and reads no more when that is much.
async fn gone(read: &mut ChannelReadHalf, ahead: &mut Vec<ChannelMsg>) {
    while ahead.len() < MAX_AHEAD {
        match read.wait().await {
            Some(ChannelMsg::Close) | None => return,
            Some(message) => ahead.push(message),
        }
    }
    std::future::pending::<()>().await;
}

/// A session for a command, if the caller may, and the end of that permission.
async fn open(
    door: &Door,
    guest: &Guest,
    command: Result<Command, Refusal>,
    protocol: Option<HeaderValue>,
    request_id: &str,
) -> Result<(TokioIo<Upgraded>, Refused), Refusal> {
    let command = command?;
    let repository = target::repository(&command.owner, &command.repo).ok_or(Refusal::Missing)?;
    let asked = ResolveAccessRequest {
        repository: Some(repository),
        operation: command.service.operation().to_owned(),
        basic: None,
        ssh_fingerprint: Some(guest.key.fingerprint.clone()),
    };
    let mut question = tonic::Request::new(asked.clone());
    annotate(&mut question, guest.client.as_ref(), request_id);
    let answer = door.access.clone().resolve_access(question).await;
    let is_user = matches!(guest.key.who, Who::User(_));
    let answer = answer.map_err(|status| Refusal::of_status(&status, is_user))?.into_inner();
    let (Some(repository), Ok(grant)) = (answer.repository, HeaderValue::try_from(answer.grant)) else {
        tracing::error!("repo-svc let a client in without a repository or a grant");
        return Err(Refusal::Internal);
    };
    if command.service == Service::ReceivePack && repository.is_mirror {
        return Err(Refusal::Mirror);
    }
    let opening = Opening { repository: repository.id, grant, service: command.service, protocol, request_id };
    let session = session::open(&door.bulk, opening).await?;
    Ok((session, until_refused(door.access.clone(), asked, door.recheck)))
}

/// Says for whom a question is, and under which id it is logged.
pub(super) fn annotate<T>(question: &mut tonic::Request<T>, client: Option<&HeaderValue>, request_id: &str) {
    if let Ok(id) = request_id.parse() {
        question.metadata_mut().insert(metadata::REQUEST_ID, id);
    }
    if let Some(client) = client
        && let Ok(client) = client.as_bytes().try_into()
    {
        question.metadata_mut().insert(metadata::CLIENT, client);
    }
}
