//! A session of git-svc, and the bytes between it and a channel.

use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use ferrite_proto::metadata;
use ferrite_proto::session::{
    FRAME_HEADER_BYTES as HEADER_BYTES, FrameHeader as Header, FrameKind as Kind, MAX_CONTENT_BYTES as MAX_BYTES,
    UPGRADE_PROTOCOL as UPGRADE,
};
use http::header::{CONNECTION, UPGRADE as UPGRADE_HEADER};
use http::{HeaderValue, Request, StatusCode};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use russh::server::Msg;
use russh::{ChannelMsg, ChannelReadHalf, ChannelWriteHalf};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::command::Service;
use super::refusal::Refusal;
use crate::bulk::{Bulk, BulkError};
use crate::git::protocol;

/// git-svc lets a session wait for a free place and for a free process for half a minute each.
const OPENING: Duration = Duration::from_secs(75);
/// What SSH calls standard error.
const STDERR: u32 = 1;

/// What a session is to be opened with.
pub(super) struct Opening<'a> {
    /// The repository.
    pub(super) repository: i64,
    /// The grant to it.
    pub(super) grant: HeaderValue,
    /// What is to be run.
    pub(super) service: Service,
    /// The version of git's protocol that the client asked for.
    pub(super) protocol: Option<HeaderValue>,
    /// The id of all this in the logs.
    pub(super) request_id: &'a str,
}

/// How an exchange ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// git ended, with this status.
    Status(u8),
    /// The client left before that.
    Gone,
    /// git-svc was lost.
    Lost,
}

/// Opens a session.
pub(super) async fn open(bulk: &Bulk, opening: Opening<'_>) -> Result<TokioIo<Upgraded>, Refusal> {
    let path = format!("/git/{}/session?service={}", opening.repository, opening.service.name());
    let mut request = Request::builder()
        .uri(path)
        .header(CONNECTION, "upgrade")
        .header(UPGRADE_HEADER, UPGRADE)
        .header(metadata::GRANT, opening.grant)
        .header(metadata::REQUEST_ID, opening.request_id)
        .body(Body::empty())
        .map_err(|_| Refusal::Internal)?;
    if let Some(value) = opening.protocol {
        request.headers_mut().insert(protocol::HEADER, value);
    }
    let answer = tokio::time::timeout(OPENING, bulk.send(request)).await.map_err(|_| Refusal::Unavailable)?;
    let response = answer.map_err(|error| {
        tracing::warn!(%error, "no session from git-svc");
        match error {
            BulkError::Unavailable(_) => Refusal::Unavailable,
            BulkError::Interrupted(_) => Refusal::Interrupted,
            BulkError::Path(_) => Refusal::Internal,
        }
    })?;
    let reason = response.headers().get(metadata::REASON).and_then(|value| value.to_str().ok()).unwrap_or("none");
    match response.status() {
        StatusCode::SWITCHING_PROTOCOLS => {}
        StatusCode::NOT_FOUND => return Err(Refusal::Missing),
        StatusCode::FORBIDDEN if reason == "MIRROR_READ_ONLY" => return Err(Refusal::Mirror),
        StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {
            tracing::warn!(reason, "git-svc has no room");
            return Err(Refusal::Unavailable);
        }
        status => {
            tracing::error!(status = status.as_u16(), reason, "git-svc refused a session");
            return Err(Refusal::Internal);
        }
    }
    hyper::upgrade::on(response).await.map(TokioIo::new).map_err(|_| Refusal::Interrupted)
}

/// Passes bytes on, both ways, until git has ended or the client is gone. Neither side is read faster than the other takes it.
pub(super) async fn exchange<S: AsyncRead + AsyncWrite>(
    session: S,
    ahead: Vec<ChannelMsg>,
    read: &mut ChannelReadHalf,
    write: &ChannelWriteHalf<Msg>,
) -> End {
    let (from_git, to_git) = tokio::io::split(session);
    tokio::select! {
        end = down(from_git, write) => end,
        () = up(ahead, read, to_git) => End::Gone,
    }
}

/// From the client to git, beginning with what it sent ahead; returns when the client is gone.
async fn up<W: AsyncWrite>(ahead: Vec<ChannelMsg>, read: &mut ChannelReadHalf, to_git: W) {
    let mut to_git = std::pin::pin!(to_git);
    let mut ahead = ahead.into_iter();
    let mut is_open = true;
    loop {
        let message = match ahead.next() {
            Some(message) => Some(message),
            None => read.wait().await,
        };
        let sent = match message {
            Some(ChannelMsg::Data { data }) if is_open => send(&mut to_git, Kind::Data, &data).await,
            Some(ChannelMsg::Eof) if is_open => send(&mut to_git, Kind::End, b"").await,
            Some(ChannelMsg::Close) | None => return,
            Some(_) => Ok(()),
        };
        // Whoever reads from git hears why; the client may still be there.
        is_open &= sent.is_ok();
    }
}

async fn send<W: AsyncWrite + Unpin>(to_git: &mut W, kind: Kind, content: &[u8]) -> std::io::Result<()> {
    let mut frame = Vec::with_capacity(HEADER_BYTES + content.len().min(MAX_BYTES));
    let (first, rest) = content.split_at(content.len().min(MAX_BYTES));
    frame.extend_from_slice(&Header { kind, length: first.len() }.encode());
    frame.extend_from_slice(first);
    to_git.write_all(&frame).await?;
    // No packet of a channel is as large as this.
    for part in rest.chunks(MAX_BYTES) {
        to_git.write_all(&Header { kind, length: part.len() }.encode()).await?;
        to_git.write_all(part).await?;
    }
    to_git.flush().await
}

/// From git to the client.
async fn down<R: AsyncRead>(from_git: R, write: &ChannelWriteHalf<Msg>) -> End {
    let mut from_git = std::pin::pin!(from_git);
    loop {
        let mut header = [0; HEADER_BYTES];
        if from_git.read_exact(&mut header).await.is_err() {
            return End::Lost;
        }
        let Ok(header) = Header::decode(header) else { return End::Lost };
        let mut content = vec![0; header.length];
        if from_git.read_exact(&mut content).await.is_err() {
            return End::Lost;
        }
        let sent = match header.kind {
            Kind::Data => write.data_bytes(Bytes::from(content)).await,
            Kind::Errors => write.extended_data_bytes(STDERR, Bytes::from(content)).await,
            Kind::Exit => return content.first().map_or(End::Lost, |status| End::Status(*status)),
            Kind::End => return End::Lost,
        };
        if sent.is_err() {
            return End::Gone;
        }
    }
}

/// Ends a channel with one line for its user and a status.
pub(super) async fn farewell(write: &ChannelWriteHalf<Msg>, line: Option<(&str, bool)>, status: u32) {
    // Whoever is not there any more hears nothing.
    let said = async {
        match line {
            Some((line, true)) => write.extended_data_bytes(STDERR, format!("{line}\n").into_bytes()).await?,
            Some((line, false)) => write.data_bytes(format!("{line}\n").into_bytes()).await?,
            None => {}
        }
        write.eof().await?;
        write.exit_status(status).await?;
        write.close().await
    };
    let _: Result<(), russh::Error> = said.await;
}
