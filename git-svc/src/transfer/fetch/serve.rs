//! Serves `pack-objects` hooks: sends a hook to a cached pack, or lets it make the pack.

use std::{io, time::Duration};

use git_store::git::pktline::Packet;
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncWrite};

use super::{
    cache::{Lookup, ProduceError, Reader},
    hook_protocol::{HookReply, InputSummary, MAX_ARG, MAX_ARGS, MAX_INPUT},
    pack_objects::{BUSY_MESSAGE, PackInput},
    request::{Fetch, Request},
    service::FetchService,
};

/// Time limit for a hook to send its request or its input, which it sends at once.
const HOOK_TIMEOUT: Duration = Duration::from_secs(30);

/// Connection of a hook that makes or copies one pack. The hook closes it when it ends.
struct HookConnection<R, W> {
    reader: R,
    writer: W,
}

/// Result of serving a hook from a cached file.
enum FollowOutcome {
    /// The hook got its last reply, or has disconnected.
    Delivered,
    /// The hook has to make the pack.
    Bypass,
    /// The producer failed before its first byte, for this reason.
    Retryable(String),
}

impl FetchService {
    /// Serves one hook until it has its pack or disconnects.
    pub(crate) async fn serve_hook<R, W>(&self, fetch: Fetch, reader: R, writer: W) -> io::Result<()>
    where
        R: AsyncBufRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        let mut hook = HookConnection { reader, writer };
        let request =
            tokio::time::timeout(HOOK_TIMEOUT, hook.request()).await.map_err(|_| io::ErrorKind::TimedOut)??;
        let Some(request) = request else { return hook.run(self, &fetch).await };
        let key = request.key(&fetch);
        let mut may_ask_again = true;
        loop {
            let reader = match self.cache.lookup(key, fetch.repository, request.input.is_clone) {
                Lookup::Bypass => return hook.run(self, &fetch).await,
                Lookup::Hit(reader) => reader,
                Lookup::Miss(reader, producer) => {
                    // This request is the producer, so it returns the producer's result and does
                    // not retry.
                    may_ask_again = false;
                    match self.cache.reserve_input(request.input.length) {
                        Some(room) => {
                            let bytes = tokio::time::timeout(HOOK_TIMEOUT, hook.input(&request.input)).await;
                            let bytes = bytes.map_err(|_| io::ErrorKind::TimedOut)??;
                            self.start(&fetch, &request, PackInput { bytes, _room: room }, producer);
                        }
                        None => producer.finish(Err(ProduceError::NotCacheable)),
                    }
                    reader
                }
            };
            match hook.follow(reader, request.wants_progress).await? {
                FollowOutcome::Delivered => return Ok(()),
                FollowOutcome::Bypass => return hook.run(self, &fetch).await,
                FollowOutcome::Retryable(_) if may_ask_again => may_ask_again = false,
                FollowOutcome::Retryable(reason) => return hook.send(&HookReply::Failed(reason)).await,
            }
        }
    }
}

impl<R: AsyncBufRead + Unpin, W: AsyncWrite + Unpin> HookConnection<R, W> {
    /// Reads the request; `None` if it is unknown, so that the hook has to make the pack.
    async fn request(&mut self) -> io::Result<Option<Request>> {
        let mut args = Vec::new();
        loop {
            match self.packet().await? {
                Packet::Data(arg) if args.len() < MAX_ARGS && arg.len() <= MAX_ARG => args.push(arg),
                Packet::Flush => break,
                _ => return Err(invalid("not an argument")),
            }
        }
        let summary = InputSummary::parse(&self.packet().await?);
        Ok(summary.and_then(|summary| Request::parse(&args, summary)))
    }

    /// Asks for the input, which must match the announced summary.
    async fn input(&mut self, announced: &InputSummary) -> io::Result<Vec<u8>> {
        self.send(&HookReply::Send).await?;
        let mut input = Vec::with_capacity(announced.length.min(MAX_INPUT));
        while let Packet::Data(chunk) = self.packet().await? {
            if input.len() + chunk.len() > announced.length {
                break;
            }
            input.extend(chunk);
        }
        if InputSummary::of(&input) == *announced {
            Ok(input)
        } else {
            Err(invalid("not the input that was announced"))
        }
    }

    /// Lets the hook make the pack, and holds a permit until it disconnects.
    async fn run(mut self, service: &FetchService, fetch: &Fetch) -> io::Result<()> {
        let entered = tokio::select! {
            entered = service.admit(fetch) => entered,
            _ = self.reader.fill_buf() => return Ok(()),
        };
        let Ok((permit, _memory)) = entered else {
            return self.send(&HookReply::Failed(BUSY_MESSAGE.to_owned())).await;
        };
        self.send(&HookReply::Run).await?;
        while self.wait_for_signal().await? {
            // The process is waiting for its client, so release its permit. It keeps its memory:
            // the number of such processes is limited, and part of the budget for large deltas is
            // reserved for them.
            if let Ok(_place) = service.cache.detached_permits().try_acquire_owned() {
                drop(permit);
                while self.wait_for_signal().await? {}
                return Ok(());
            }
        }
        Ok(())
    }

    /// Waits for any bytes from the hook and drops them. Returns false once it has disconnected.
    async fn wait_for_signal(&mut self) -> io::Result<bool> {
        let count = self.reader.fill_buf().await?.len();
        self.reader.consume(count);
        Ok(count > 0)
    }

    /// Sends the hook the path of a file, then progress and the result. The file is kept until the
    /// hook disconnects.
    async fn follow(&mut self, mut reader: Reader, wants_progress: bool) -> io::Result<FollowOutcome> {
        let begun = tokio::select! {
            begun = reader.begun() => begun,
            _ = self.reader.fill_buf() => return Ok(FollowOutcome::Delivered),
        };
        let path = match begun {
            Ok(path) => path.to_owned(),
            Err(ProduceError::Retryable(reason)) => return Ok(FollowOutcome::Retryable(reason)),
            Err(ProduceError::NotCacheable) => return Ok(FollowOutcome::Bypass),
            Err(ProduceError::Failed(reason)) => {
                self.send(&HookReply::Failed(reason)).await?;
                return Ok(FollowOutcome::Delivered);
            }
        };
        self.send(&HookReply::Follow(path)).await?;
        let mut log_offset = 0;
        loop {
            let progress = tokio::select! {
                progress = reader.progress(&mut log_offset) => progress,
                _ = self.reader.fill_buf() => return Ok(FollowOutcome::Delivered),
            };
            if wants_progress {
                for chunk in progress.text.chunks(4096) {
                    self.send(&HookReply::Text(chunk.to_vec())).await?;
                }
            }
            let end = match progress.end {
                None => continue,
                Some(Ok(size)) => HookReply::Done(size),
                Some(Err(ProduceError::Failed(reason) | ProduceError::Retryable(reason))) => HookReply::Failed(reason),
                Some(Err(ProduceError::NotCacheable)) => HookReply::Failed("cannot create the pack".to_owned()),
            };
            self.send(&end).await?;
            // The hook may still be copying, so keep the file until it disconnects.
            self.reader.fill_buf().await?;
            return Ok(FollowOutcome::Delivered);
        }
    }

    async fn packet(&mut self) -> io::Result<Packet> {
        Packet::read(&mut self.reader).await?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    async fn send(&mut self, reply: &HookReply) -> io::Result<()> {
        reply.packet().write(&mut self.writer).await
    }
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
