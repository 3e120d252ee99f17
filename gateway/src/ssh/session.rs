use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use ferrite_proto::git_transport::{GitProtocol, GitService};
use ferrite_proto::session::{FRAME_HEADER_BYTES, FrameHeader, FrameKind, MAX_CONTENT_BYTES, UPGRADE_PROTOCOL};
use http::header::{CONNECTION, UPGRADE};
use http::{Request, StatusCode};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use russh::server::Msg;
use russh::{ChannelMsg, ChannelReadHalf, ChannelWriteHalf};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::error::SshCommandError;
use crate::git::line_of;
use crate::upstream::client_headers::ClientHeaders;
use crate::upstream::git_client::{GitClientError, GitHttpClient, OVERLOADED, reason_of, set_git_protocol};
use crate::upstream::grant::Grant;

/// Deadline for opening a session. git-svc lets it wait half a minute for a permit and half a
/// minute for a process.
const OPEN_TIMEOUT: Duration = Duration::from_secs(75);
/// Deadline for the last line and the exit status of a channel.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// `SSH_EXTENDED_DATA_STDERR` (RFC 4254, section 5.2).
const STDERR: u32 = 1;

pub(super) struct OpenSession<'a> {
    pub(super) repository_id: i64,
    pub(super) grant: Grant,
    pub(super) service: GitService,
    pub(super) protocol: Option<GitProtocol>,
    pub(super) headers: &'a ClientHeaders,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SessionEnd {
    Exited(u8),
    ClientDisconnected,
    ServiceLost,
}

/// The last line for the user of a channel.
#[derive(Clone, Copy, Debug)]
pub(super) enum Message<'a> {
    Output(&'a str),
    Error(&'a str),
}

pub(super) async fn open(
    git_client: &GitHttpClient,
    session: OpenSession<'_>,
) -> Result<TokioIo<Upgraded>, SshCommandError> {
    let path = format!("/git/{}/session?service={}", session.repository_id, session.service.name());
    let mut request = Request::builder()
        .uri(path)
        .header(CONNECTION, "upgrade")
        .header(UPGRADE, UPGRADE_PROTOCOL)
        .body(Body::empty())
        .map_err(|_| SshCommandError::Internal)?;
    session.grant.insert_into(request.headers_mut());
    session.headers.insert_into(request.headers_mut());
    if let Some(protocol) = session.protocol {
        set_git_protocol(request.headers_mut(), &protocol);
    }
    let response = tokio::time::timeout(OPEN_TIMEOUT, git_client.send(request)).await;
    let response = response.map_err(|_| SshCommandError::Unavailable)?.map_err(|error| match error {
        GitClientError::Unavailable(_) | GitClientError::NoStore(_) => SshCommandError::Unavailable,
        GitClientError::Interrupted(_) => SshCommandError::Interrupted,
        GitClientError::Path(_) | GitClientError::Token => SshCommandError::Internal,
    })?;
    let reason = reason_of(response.headers());
    match response.status() {
        StatusCode::SWITCHING_PROTOCOLS => {}
        StatusCode::NOT_FOUND => return Err(SshCommandError::Missing),
        StatusCode::FORBIDDEN if reason == "MIRROR_READ_ONLY" => return Err(SshCommandError::MirrorReadOnly),
        StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {
            tracing::warn!(reason, "git-svc is at a limit");
            let line = if reason == OVERLOADED { line_of(response.into_body()).await } else { None };
            return Err(line.map_or(SshCommandError::Unavailable, SshCommandError::Busy));
        }
        status => {
            tracing::error!(status = status.as_u16(), reason, "git-svc refused a session");
            return Err(SshCommandError::Internal);
        }
    }
    hyper::upgrade::on(response).await.map(TokioIo::new).map_err(|_| SshCommandError::Interrupted)
}

/// Pipes bytes in both directions until git exits or the client disconnects, with backpressure on
/// both sides.
pub(super) async fn exchange<S: AsyncRead + AsyncWrite>(
    session: S,
    buffered: Vec<ChannelMsg>,
    read: &mut ChannelReadHalf,
    write: &ChannelWriteHalf<Msg>,
) -> SessionEnd {
    let (from_git, to_git) = tokio::io::split(session);
    tokio::select! {
        end = pipe_to_client(from_git, write) => end,
        () = pipe_to_git(buffered, read, to_git) => SessionEnd::ClientDisconnected,
    }
}

/// Pipes the client's messages to git, buffered ones first. Returns when the client disconnects.
async fn pipe_to_git<W: AsyncWrite>(buffered: Vec<ChannelMsg>, read: &mut ChannelReadHalf, to_git: W) {
    let mut to_git = std::pin::pin!(to_git);
    let mut buffered = buffered.into_iter();
    let mut is_open = true;
    loop {
        let message = match buffered.next() {
            Some(message) => Some(message),
            None => read.wait().await,
        };
        let sent = match message {
            Some(ChannelMsg::Data { data }) if is_open => send(&mut to_git, FrameKind::Data, &data).await,
            Some(ChannelMsg::Eof) if is_open => send(&mut to_git, FrameKind::End, b"").await,
            Some(ChannelMsg::Close) | None => return,
            Some(_) => Ok(()),
        };
        // A lost session also ends `pipe_to_client`, which reports it. Until then, client messages
        // are dropped.
        is_open &= sent.is_ok();
    }
}

/// Sends a message as one frame, or as several if it exceeds the frame limit.
async fn send<W: AsyncWrite + Unpin>(to_git: &mut W, kind: FrameKind, content: &[u8]) -> std::io::Result<()> {
    let mut frame = Vec::with_capacity(FRAME_HEADER_BYTES + content.len().min(MAX_CONTENT_BYTES));
    let (first, rest) = content.split_at(content.len().min(MAX_CONTENT_BYTES));
    frame.extend_from_slice(&FrameHeader { kind, length: first.len() }.encode());
    frame.extend_from_slice(first);
    to_git.write_all(&frame).await?;
    // SSH packets are shorter than a frame, so in practice nothing remains.
    for chunk in rest.chunks(MAX_CONTENT_BYTES) {
        to_git.write_all(&FrameHeader { kind, length: chunk.len() }.encode()).await?;
        to_git.write_all(chunk).await?;
    }
    to_git.flush().await
}

async fn pipe_to_client<R: AsyncRead>(from_git: R, write: &ChannelWriteHalf<Msg>) -> SessionEnd {
    let mut from_git = std::pin::pin!(from_git);
    loop {
        let mut header = [0; FRAME_HEADER_BYTES];
        if from_git.read_exact(&mut header).await.is_err() {
            return SessionEnd::ServiceLost;
        }
        let Ok(header) = FrameHeader::decode(header) else { return SessionEnd::ServiceLost };
        let mut content = vec![0; header.length];
        if from_git.read_exact(&mut content).await.is_err() {
            return SessionEnd::ServiceLost;
        }
        let sent = match header.kind {
            FrameKind::Data => write.data_bytes(Bytes::from(content)).await,
            FrameKind::Errors => write.extended_data_bytes(STDERR, Bytes::from(content)).await,
            FrameKind::Exit => {
                return content.first().map_or(SessionEnd::ServiceLost, |status| SessionEnd::Exited(*status));
            }
            FrameKind::End => return SessionEnd::ServiceLost,
        };
        if sent.is_err() {
            return SessionEnd::ClientDisconnected;
        }
    }
}

/// Sends the last line and the exit status, and closes the channel. Skips the line if the client
/// does not read.
pub(super) async fn close(write: &ChannelWriteHalf<Msg>, message: Option<Message<'_>>, exit_status: u32) {
    let line = async {
        match message {
            Some(Message::Error(line)) => write.extended_data_bytes(STDERR, format!("{line}\n").into_bytes()).await,
            Some(Message::Output(line)) => write.data_bytes(format!("{line}\n").into_bytes()).await,
            None => Ok(()),
        }
    };
    drop(tokio::time::timeout(CLOSE_TIMEOUT, line).await);
    // These need no flow control window, so they reach a client that does not read as soon as it
    // does.
    let end = async {
        write.eof().await?;
        write.exit_status(exit_status).await?;
        write.close().await
    };
    drop(tokio::time::timeout(CLOSE_TIMEOUT, end).await);
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::routing::get;
    use ferrite_proto::metadata;
    use http::{HeaderMap, HeaderValue};
    use tokio::sync::mpsc;

    use super::*;
    use crate::tests::git_server;

    #[tokio::test]
    async fn the_client_is_told_which_limit_has_no_room() {
        let refuse =
            || async { (StatusCode::SERVICE_UNAVAILABLE, [(metadata::REASON, OVERLOADED)], "1 per account\n") };
        let (client, life) = git_server("session-busy", Router::new().route("/git/7/session", get(refuse))).await;
        let request = OpenSession {
            repository_id: 7,
            grant: Grant::new("signed", "").unwrap(),
            service: GitService::ReceivePack,
            protocol: None,
            headers: &ClientHeaders::new("id-1", None),
        };
        let error = open(&client, request).await.unwrap_err();
        assert_eq!((error.to_string().as_str(), error.name()), ("1 per account", "unavailable"));
        life.stop();
    }

    #[tokio::test]
    async fn git_svc_is_told_the_request_and_the_address_of_the_client() {
        let (sender, mut received) = mpsc::channel(1);
        let refuse = move |headers: HeaderMap| async move {
            sender.send(headers).await.unwrap();
            StatusCode::SERVICE_UNAVAILABLE
        };
        let (client, life) = git_server("session", Router::new().route("/git/7/session", get(refuse))).await;
        let request = OpenSession {
            repository_id: 7,
            grant: Grant::new("signed", "").unwrap(),
            service: GitService::UploadPack,
            protocol: Some(GitProtocol::version_2()),
            headers: &ClientHeaders::new("id-1", Some(HeaderValue::from_static("192.0.2.7"))),
        };
        assert_eq!(open(&client, request).await.unwrap_err(), SshCommandError::Unavailable);
        let headers = received.recv().await.unwrap();
        let expected = [
            (metadata::CLIENT, "192.0.2.7"),
            (metadata::REQUEST_ID, "id-1"),
            (metadata::GRANT, "signed"),
            ("git-protocol", "version=2"),
        ];
        for (name, value) in expected {
            assert_eq!(headers.get(name).map(HeaderValue::as_bytes), Some(value.as_bytes()), "{name}");
        }
        life.stop();
    }
}
