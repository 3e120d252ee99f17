use std::sync::Arc;
use std::time::Instant;

use ferrite_proto::git_transport::{GitProtocol, GitService};
use ferrite_proto::repo::ResolveAccessRequest;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use russh::server::Msg;
use russh::{Channel, ChannelMsg, ChannelReadHalf, ChannelWriteHalf};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span, field};

use super::command::Command;
use super::error::SshCommandError;
use super::session::{self, Message, OpenSession, SessionEnd};
use super::state::{ConnectionTracker, KeyOwner, SshClient, SshState};
use crate::git::target;
use crate::upstream::client_headers::ClientHeaders;
use crate::upstream::grant::Grant;
use crate::upstream::reauthorize::Revoked;

/// Exit status if git did not set one.
const EXIT_FAILURE: u32 = 1;
/// Messages of a client that are buffered until git-svc has opened the session.
const MAX_BUFFERED_MESSAGES: usize = 16;

pub(super) enum ChannelRequest {
    Shell,
    /// A command, and the git protocol version from the environment.
    Command(Result<Command, SshCommandError>, Option<GitProtocol>),
}

/// How a command ended: its result for metrics, an error for the client's standard error, and the
/// exit status.
struct CommandEnd {
    result: &'static str,
    error: Option<SshCommandError>,
    exit_status: u32,
}

/// Serves a channel until its command ends, the client disconnects, or `cancelled` is cancelled.
pub(super) async fn serve(
    state: Arc<SshState>,
    client: SshClient,
    channel: Channel<Msg>,
    request: oneshot::Receiver<ChannelRequest>,
    tracker: ConnectionTracker,
    cancelled: CancellationToken,
) {
    let (mut read, write) = channel.split();
    let served = async {
        let Some(request) = wait_for_request(&mut read, request).await else { return };
        let _guard = tracker.start_command();
        match request {
            ChannelRequest::Shell => {
                let greeting = match &client.key.owner {
                    KeyOwner::User(name) => format!("Hi {name}! You are signed in, but Ferrite provides no shell."),
                    KeyOwner::Repositories => {
                        "Hi! You are signed in with a deploy key, but Ferrite provides no shell.".to_owned()
                    }
                };
                session::close(&write, Some(Message::Output(&greeting)), EXIT_FAILURE).await;
            }
            ChannelRequest::Command(command, protocol) => {
                let service = command.as_ref().map_or("none", |command| command.service.name());
                let span =
                    tracing::info_span!("ssh", otel.name = service, otel.kind = "server", request.id = field::Empty);
                let end = run(&state, &client, command, protocol, &mut read, &write).instrument(span).await;
                if let Some(end) = end {
                    let line = end.error.map(|error| format!("Ferrite: {error}"));
                    session::close(&write, line.as_deref().map(Message::Error), end.exit_status).await;
                }
            }
        }
    };
    tokio::select! {
        () = served => {}
        () = cancelled.cancelled() => {}
    }
}

/// Runs a command; `None` if the client closes the channel before the session is open.
async fn run(
    state: &SshState,
    client: &SshClient,
    command: Result<Command, SshCommandError>,
    protocol: Option<GitProtocol>,
    read: &mut ChannelReadHalf,
    write: &ChannelWriteHalf<Msg>,
) -> Option<CommandEnd> {
    let (start, request_id) = (Instant::now(), uuid::Uuid::new_v4().to_string());
    Span::current().record("request.id", request_id.as_str());
    let service = command.as_ref().map_or("none", |command| command.service.name());
    let headers = ClientHeaders::new(&request_id, client.address.clone());
    let mut buffered = Vec::new();
    // Dropping `open` leaves git-svc's queue.
    let opened = tokio::select! {
        opened = open(state, client, command, protocol, &headers) => opened,
        () = closed(read, &mut buffered) => return None,
    };
    let end = match opened {
        Ok((session, mut revoked)) => tokio::select! {
            end = session::exchange(session, buffered, read, write) => end_of_session(end),
            status = &mut revoked => {
                let error = SshCommandError::of_status(&status, matches!(client.key.owner, KeyOwner::User(_)));
                CommandEnd { result: "revoked", error: Some(error), exit_status: EXIT_FAILURE }
            }
        },
        Err(error) => CommandEnd { result: error.name(), error: Some(error), exit_status: EXIT_FAILURE },
    };
    let result = end.result;
    metrics::counter!("ferrite_ssh_commands_total", "service" => service, "result" => result).increment(1);
    let duration_ms = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
    let key = client.key.fingerprint.as_str();
    tracing::info!(request_id, service, result, duration_ms, key, "SSH command finished");
    Some(end)
}

fn end_of_session(end: SessionEnd) -> CommandEnd {
    let (result, error, exit_status) = match end {
        SessionEnd::Exited(0) => ("ok", None, 0),
        SessionEnd::Exited(status) => ("failed", None, status.into()),
        SessionEnd::ClientDisconnected => ("gone", None, EXIT_FAILURE),
        SessionEnd::ServiceLost => ("lost", Some(SshCommandError::Interrupted), EXIT_FAILURE),
    };
    CommandEnd { result, error, exit_status }
}

/// Waits for the request on a channel; `None` if the client closes it. Drops data that arrives
/// before.
async fn wait_for_request(
    read: &mut ChannelReadHalf,
    request: oneshot::Receiver<ChannelRequest>,
) -> Option<ChannelRequest> {
    loop {
        match read.wait().await? {
            ChannelMsg::Close => return None,
            // The connection's handler parses the message and then sends the request.
            ChannelMsg::Exec { .. } | ChannelMsg::RequestShell { .. } => return request.await.ok(),
            _ => {}
        }
    }
}

/// Returns when the client closes the channel. Buffers its messages and stops reading at
/// [`MAX_BUFFERED_MESSAGES`].
async fn closed(read: &mut ChannelReadHalf, buffered: &mut Vec<ChannelMsg>) {
    while buffered.len() < MAX_BUFFERED_MESSAGES {
        match read.wait().await {
            Some(ChannelMsg::Close) | None => return,
            Some(message) => buffered.push(message),
        }
    }
    std::future::pending::<()>().await;
}

/// Authorizes a command and opens its session. Also returns a future that completes when the
/// permission is revoked.
async fn open(
    state: &SshState,
    client: &SshClient,
    command: Result<Command, SshCommandError>,
    protocol: Option<GitProtocol>,
    headers: &ClientHeaders,
) -> Result<(TokioIo<Upgraded>, Revoked), SshCommandError> {
    let command = command?;
    let target = target::parse(&command.owner, &command.repo).ok_or(SshCommandError::Missing)?;
    let access_request = ResolveAccessRequest {
        repository: Some(target.repository),
        is_wiki: target.is_wiki,
        follow_redirect: true,
        operation: command.service.operation().to_owned(),
        basic: None,
        ssh_fingerprint: Some(client.key.fingerprint.clone()),
    };
    let response = state.access.clone().resolve_access(headers.request(access_request)).await;
    let is_user = matches!(client.key.owner, KeyOwner::User(_));
    let response = response.map_err(|status| SshCommandError::of_status(&status, is_user))?.into_inner();
    let stored_id = response.stored_id;
    let grant = Grant::new(&response.grant, &response.store);
    let (Some(repository), Ok(grant)) = (response.repository, grant) else {
        tracing::error!("repo-svc authorized a client without a repository or a grant");
        return Err(SshCommandError::Internal);
    };
    if command.service == GitService::ReceivePack && repository.is_mirror {
        return Err(SshCommandError::MirrorReadOnly);
    }
    let request = OpenSession { repository_id: stored_id, grant, service: command.service, protocol, headers };
    let session = session::open(&state.git_client, request).await?;
    Ok((session, state.reauthorizer.until_revoked(response.reauthorization)))
}
