//! Connects a git process to the bodies of a request and its response. Buffers are bounded in both
//! directions, and time limits end the process.

use std::{
    io,
    pin::pin,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use ferrite_core::Lifecycle;
use futures_util::{FutureExt as _, Stream, StreamExt as _, stream};
use git_store::{
    git::{
        command::{CpuWatch, GitChild, read_limited},
        pktline,
    },
    types::{error::GitError, limits::TransferLimits},
};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _},
    process::ChildStdin,
};

use super::{
    body_channel::{BodySender, CHUNK_BYTES, channel},
    fetch::PrefixFilter,
    push::{PushInspection, SentOutput, StatusReport, count_refusal},
    request_body::RequestBody,
};
use crate::admission::throughput::{IdleTimer, MinThroughput};

/// How long a long response waits for more output after a short read, because a few large chunks
/// cost less than many small ones.
const COALESCE_DELAY: Duration = Duration::from_millis(1);
const MAX_WAITING_CHUNKS: usize = 2;
/// How long to read the rest of a request whose response ended early.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
/// Bytes of stderr to keep for the log.
const MAX_LOGGED_STDERR_BYTES: u64 = 4 << 10;

/// Error of `upload-pack` when a request of protocol version 0 or 1 asks for the boundary of a
/// shallow history: git expects more input, which the client sends in its next request.
const SHALLOW_ROUND: &str = "the remote end hung up unexpectedly";

/// Shared by the stdin and the stdout task of one git process.
struct ProcessPipe<'a> {
    limits: &'a TransferLimits,
    idle: IdleTimer,
    sender: BodySender,
    /// Inspects the bytes of a push before the process gets them.
    inspection: Option<PushInspection>,
    /// Bytes received from the client so far.
    received: AtomicU64,
    /// Set after a push was rejected, to drop the output of the process.
    is_output_discarded: AtomicBool,
    sent: Mutex<SentOutput>,
}

impl ProcessPipe<'_> {
    /// Inspects bytes. If they are rejected, closes the stdin of the process and returns the report
    /// for the client.
    async fn inspect(&self, bytes: &[u8], stdin: &mut Option<ChildStdin>) -> Option<Bytes> {
        let response = self.inspection.as_ref()?.inspect(bytes, self.received.load(Ordering::Relaxed)).await?;
        // Set this before closing stdin, because the process writes output as soon as its input
        // ends.
        self.is_output_discarded.store(true, Ordering::Relaxed);
        *stdin = None;
        Some(Bytes::from(response))
    }

    /// Writes the next bytes of a request, filtered by `filter`, to the process. Returns the report
    /// for the client if they are rejected.
    async fn pass_on(
        &self,
        bytes: Bytes,
        stdin: &mut Option<ChildStdin>,
        filter: &mut Option<PrefixFilter>,
    ) -> Option<Bytes> {
        let refusal = self.inspect(&bytes, stdin).await;
        let bytes = match filter {
            Some(filter) => filter.push(&bytes).into(),
            None => bytes,
        };
        write(stdin, &bytes).await;
        refusal
    }

    /// Returns the last chunk of a failed transfer: a rejection report in git's format if a push
    /// exceeded a limit before git sent its own, otherwise the error.
    fn final_chunk(&self, error: GitError) -> Result<Bytes, GitError> {
        if !error.is_transfer_limit() || !self.sent.lock().may_report() {
            return Err(error);
        }
        let response = self.inspection.as_ref().and_then(|inspection| inspection.rejection_report(&error.to_string()));
        response.map(Bytes::from).ok_or(error)
    }

    /// Returns when the git processes of a push have used up their CPU time. Never returns for
    /// other transfers.
    async fn cpu_spent(&self, cpu: Option<CpuWatch>) -> GitError {
        let Some(cpu) = cpu else { return std::future::pending().await };
        let error = cpu.spent(|| self.received.load(Ordering::Relaxed)).await;
        count_refusal("cpu");
        error
    }
}

/// Runs git processes between requests and responses.
#[derive(Clone)]
pub(crate) struct Transfers {
    pub(crate) limits: TransferLimits,
    pub(crate) life: Lifecycle,
}

impl Transfers {
    /// Spawns a task that runs the process, and returns the response body, which starts with
    /// `prefix`. Waits for the first chunk, so that an early failure becomes an HTTP status.
    /// `on_exit` runs after the process has ended; its argument is false if the transfer failed or
    /// the client disconnected early. Dropping the body kills the process.
    pub(crate) async fn run<F>(
        &self,
        child: GitChild,
        input: RequestBody,
        prefix: Vec<u8>,
        on_exit: impl FnOnce(bool) -> F + Send + 'static,
    ) -> Result<Body, GitError>
    where
        F: Future<Output = ()> + Send,
    {
        let (sender, mut chunks) = channel(MAX_WAITING_CHUNKS);
        let limits = self.limits;
        self.life.spawn_for_request("transfer", async move {
            let ended_well = serve(&limits, child, input, sender).await;
            on_exit(ended_well).await;
        });
        let first = chunks.next().await.transpose()?;
        let head = stream::iter([Some(Bytes::from(prefix)), first]).filter_map(std::future::ready);
        let head = head.filter(|bytes| std::future::ready(!bytes.is_empty()));
        Ok(Body::from_stream(head.map(Ok).chain(chunks.into_stream())))
    }

    /// Streams the output of a process that needs no input. The stream ends in an error if the
    /// process fails. `on_exit` is dropped after the process has ended.
    pub(crate) fn output<K>(&self, child: GitChild, on_exit: K) -> impl Stream<Item = io::Result<Bytes>> + use<K>
    where
        K: Send + 'static,
    {
        let (sender, chunks) = channel(MAX_WAITING_CHUNKS);
        let limits = self.limits;
        self.life.spawn_for_request("transfer", async move {
            serve(&limits, child, RequestBody::empty(&limits), sender).await;
            drop(on_exit);
        });
        chunks.into_stream()
    }

    /// Forwards chunks to the client within the limits of transfers. `on_exit` is dropped after the
    /// last one.
    pub(crate) fn paced<S, K>(&self, chunks: S, on_exit: K) -> impl Stream<Item = io::Result<Bytes>> + use<S, K>
    where
        S: Stream<Item = io::Result<Bytes>> + Send + 'static,
        K: Send + 'static,
    {
        let (sender, receiver) = channel(MAX_WAITING_CHUNKS);
        let limits = self.limits;
        self.life.spawn_for_request("transfer", async move {
            let outcome = tokio::select! {
                outcome = tokio::time::timeout(limits.total, forward(&limits, chunks, &sender)) => outcome,
                () = sender.closed() => return,
            };
            match outcome {
                Ok(Ok(())) => sender.end(),
                Ok(Err(error)) => tracing::debug!(%error, "a transfer failed"),
                Err(_) => tracing::debug!("a transfer took too long"),
            }
            drop(on_exit);
        });
        receiver.into_stream()
    }
}

async fn forward(
    limits: &TransferLimits,
    chunks: impl Stream<Item = io::Result<Bytes>>,
    sender: &BodySender,
) -> Result<(), GitError> {
    let mut chunks = pin!(chunks);
    let mut throughput = MinThroughput::new(limits.idle, limits.min_rate);
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(GitError::io("reading a file"))?;
        let count = chunk.len();
        throughput.wait(sender.send(Ok(chunk))).await?.map_err(|_| GitError::ClientGone)?;
        throughput.add_bytes(count);
    }
    Ok(())
}

/// Runs the transfer. Returns false if it failed or the client disconnected early.
async fn serve(limits: &TransferLimits, mut child: GitChild, mut input: RequestBody, sender: BodySender) -> bool {
    let pipe = ProcessPipe {
        limits,
        idle: IdleTimer::new(),
        sender,
        inspection: input.inspector.take().map(PushInspection::new),
        received: AtomicU64::new(0),
        is_output_discarded: AtomicBool::new(false),
        sent: Mutex::default(),
    };
    let name = child.name();
    let cpu = pipe.inspection.as_ref().and_then(|inspection| child.cpu_watch(inspection.cpu));
    let outcome = tokio::select! {
        outcome = work(&mut child, &mut input, &pipe) => outcome,
        () = pipe.sender.closed() => {
            tracing::debug!(name, "the client disconnected");
            child.end().await;
            return false;
        }
        error = pipe.cpu_spent(cpu) => Err(error),
        () = pipe.idle.expired(limits.idle) => Err(GitError::TimedOut { what: "the transfer" }),
        () = tokio::time::sleep(limits.total) => Err(GitError::TimedOut { what: "the transfer" }),
    };
    let Err(error) = outcome else {
        pipe.sender.end();
        return true;
    };
    tracing::debug!(name, %error, "a transfer failed");
    let report = pipe.final_chunk(error);
    let is_whole = report.is_ok();
    // Ignore errors: the client has disconnected.
    let report = tokio::time::timeout(limits.idle, pipe.sender.send(report));
    let (report, ()) = tokio::join!(report, child.end());
    if is_whole && report == Ok(Ok(())) {
        pipe.sender.end();
    }
    // Dropping the pipe ends the response. Then read the rest of the request, because a client that
    // is still sending must not find the connection closed before it has read the response.
    drop(pipe);
    if is_whole {
        drop(tokio::time::timeout(DRAIN_TIMEOUT, input.discard()).await);
    }
    false
}

async fn work(child: &mut GitChild, input: &mut RequestBody, pipe: &ProcessPipe<'_>) -> Result<(), GitError> {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let name = child.name();
    let logged = async { Ok(read_limited(stderr, MAX_LOGGED_STDERR_BYTES).await) };
    let (refusal, (sent, last), logged) = tokio::try_join!(feed(input, stdin, pipe), drain(stdout, pipe), logged)?;
    let stderr_text = String::from_utf8_lossy(&logged).trim_end().to_owned();
    let status = child.wait().await?;
    if !stderr_text.is_empty() {
        tracing::debug!(name, stderr = stderr_text, "git complained");
    }
    if let Some(refusal) = refusal {
        tracing::debug!(name, "rejected a push before its pack");
        // Fails only if the client has disconnected, which `serve` handles.
        let _ = pipe.sender.send(Ok(refusal)).await;
        return Ok(());
    }
    // git reports a failure in its output, unless the output is a truncated pack or file. Then the
    // body must end in an error.
    let is_cut = match name {
        "upload-pack" => {
            sent > pktline::MAX_PACKET && !stderr_text.contains(SHALLOW_ROUND) && !pktline::ends_in_reason(&last)
        }
        "cat-file" => true,
        _ => false,
    };
    if status.success() || (sent > 0 && !is_cut) {
        return Ok(());
    }
    if is_cut {
        return Err(GitError::Command { command: name, status: status.to_string(), stderr: stderr_text });
    }
    Err(GitError::invalid("body", "invalid", "git did not understand the request"))
}

/// Writes the body to the process's stdin. If the process stops reading, reads and drops the rest,
/// so that the client can read its response. Returns the inspector's report if it rejected the
/// push; stdin is then closed and the output discarded.
async fn feed(
    input: &mut RequestBody,
    mut stdin: Option<ChildStdin>,
    pipe: &ProcessPipe<'_>,
) -> Result<Option<Bytes>, GitError> {
    let mut refusal = None;
    let buffered = std::mem::take(&mut input.buffered);
    pipe.received.store(input.received(), Ordering::Relaxed);
    if !buffered.is_empty() {
        refusal = pipe.pass_on(buffered.into(), &mut stdin, &mut input.prefixes).await;
    }
    loop {
        let mut bytes = match input.next().await {
            Ok(Some(bytes)) => bytes,
            Ok(None) => break,
            // The process has stopped reading, so an error in the rest of the body does not change
            // the response.
            Err(_) if stdin.is_none() => return Ok(refusal),
            Err(error) => return Err(error),
        };
        pipe.idle.touch();
        pipe.received.store(input.received(), Ordering::Relaxed);
        while !bytes.is_empty() && stdin.is_some() {
            let out = match &mut input.inflate {
                None => std::mem::take(&mut bytes),
                Some(inflate) => Bytes::from(inflate.step(&mut bytes)?),
            };
            refusal = pipe.pass_on(out, &mut stdin, &mut input.prefixes).await.or(refusal);
            pipe.idle.touch();
        }
    }
    if let Some(inflate) = &mut input.inflate
        && stdin.is_some()
    {
        let out = inflate.finish()?.into();
        refusal = pipe.pass_on(out, &mut stdin, &mut input.prefixes).await.or(refusal);
    }
    if let Some(filter) = &mut input.prefixes {
        write(&mut stdin, &filter.finish()).await;
    }
    Ok(refusal)
}

/// Writes to stdin, and closes it if the process has stopped reading.
async fn write(stdin: &mut Option<ChildStdin>, bytes: &[u8]) {
    if let Some(open) = stdin
        && open.write_all(bytes).await.is_err()
    {
        *stdin = None;
    }
}

/// Sends the process's output to the client, unless it is discarded. Returns the number of bytes
/// sent and the last chunk.
async fn drain<R>(stdout: Option<R>, pipe: &ProcessPipe<'_>) -> Result<(usize, Bytes), GitError>
where
    R: AsyncRead + Unpin,
{
    let (mut sent, mut last) = (0, Bytes::new());
    let Some(mut stdout) = stdout else { return Ok((sent, last)) };
    let mut report = None;
    let mut throughput = MinThroughput::new(pipe.limits.idle, pipe.limits.min_rate);
    loop {
        let mut chunk = BytesMut::with_capacity(CHUNK_BYTES);
        let mut count = stdout.read_buf(&mut chunk).await.map_err(GitError::io("reading from git"))?;
        if count == 0 {
            break;
        }
        if sent > CHUNK_BYTES && count < CHUNK_BYTES / 2 {
            tokio::time::sleep(COALESCE_DELAY).await;
            // A read that is pending or fails is repeated in the next iteration.
            count += stdout.read_buf(&mut chunk).now_or_never().and_then(Result::ok).unwrap_or(0);
        }
        if pipe.is_output_discarded.load(Ordering::Relaxed) {
            continue;
        }
        last = chunk.freeze();
        if let Some(inspection) = &pipe.inspection {
            // git writes nothing before it has read all commands.
            last = report.get_or_insert_with(|| inspection.status_report()).pass(&last).into();
            count = last.len();
            if last.is_empty() {
                continue;
            }
            pipe.sent.lock().add(&last);
        }
        sent += count;
        pipe.idle.touch();
        if throughput.wait(pipe.sender.send(Ok(last.clone()))).await?.is_err() {
            // The client disconnected. `serve` notices that too, and kills the process.
            return std::future::pending().await;
        }
        throughput.add_bytes(count);
        pipe.idle.touch();
    }
    // A packet that git left incomplete.
    let rest = report.map(StatusReport::finish).unwrap_or_default();
    let is_sent = !rest.is_empty() && !pipe.is_output_discarded.load(Ordering::Relaxed);
    if is_sent && pipe.sender.send(Ok(rest.into())).await.is_err() {
        return std::future::pending().await;
    }
    Ok((sent, last))
}
