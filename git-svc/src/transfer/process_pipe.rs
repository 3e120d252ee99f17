//! A git process between a request's body and an answer's: bounded buffers both ways, and an end whatever happens.

use std::{
    io,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use ferrite_kit::Lifecycle;
use futures_util::{FutureExt as _, Stream, StreamExt as _, stream};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _},
    process::ChildStdin,
};

use super::{
    body_channel::{BodySender, CHUNK_BYTES, channel},
    push::PushInspector,
    request_body::{RequestBody, inflate_error},
};
use crate::{
    admission::{idle_timer::IdleTimer, limiter::Permit, throughput::MinThroughput},
    git::{command::GitChild, pktline},
    types::{error::GitError, limits::TransferLimits},
};

/// How long a long answer waits for more when there is little: a few large pieces cost less on their way than many small ones.
const COALESCE_DELAY: Duration = Duration::from_millis(1);
/// How long a client that was told why it may not go on may still be sending.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
/// What is kept of a process's complaints, for the log.
const MAX_LOGGED_STDERR_BYTES: usize = 4 << 10;

/// What `upload-pack` complains of when a client of protocol v0 or v1 has asked where a shallow history ends: it expects more then,
/// which comes in the next request.
const SHALLOW_ROUND: &str = "the remote end hung up unexpectedly";

/// Work that is left when a process has ended.
pub(crate) trait OnExit: Send + 'static {
    /// Does it. `ended_well` is true if the process came to its own end.
    fn end(self, ended_well: bool) -> impl Future<Output = ()> + Send;
}

impl OnExit for Permit {
    async fn end(self, _: bool) {}
}

/// What the two sides of a process know of each other.
struct ProcessPipe<'a> {
    limits: &'a TransferLimits,
    idle: IdleTimer,
    sender: BodySender,
    /// Looks at what the process is given.
    inspector: Mutex<Option<PushInspector>>,
    /// The process is not to be heard any more.
    is_output_discarded: AtomicBool,
    /// The client heard something of the process.
    has_sent_output: AtomicBool,
}

impl ProcessPipe<'_> {
    /// Shows bytes to whoever looks at them, and cuts the process off if they are refused; returns the answer then.
    fn inspect(&self, bytes: &[u8], stdin: &mut Option<ChildStdin>) -> Option<Bytes> {
        let answer = self.inspector().as_mut()?.inspect(bytes)?;
        // First: the process says something as soon as its input ends.
        self.is_output_discarded.store(true, Ordering::Relaxed);
        *stdin = None;
        Some(Bytes::from(answer))
    }

    /// What the client hears of a failure: git's own words, if it pushes and has heard nothing yet.
    fn final_chunk(&self, error: GitError) -> Result<Bytes, GitError> {
        let is_limit = matches!(error, GitError::TimedOut { .. } | GitError::TooLarge { .. } | GitError::TooSlow);
        if !is_limit || self.has_sent_output.load(Ordering::Relaxed) {
            return Err(error);
        }
        let answer = self.inspector().as_ref().and_then(|inspector| inspector.rejection_report(&error.to_string()));
        answer.map(Bytes::from).ok_or(error)
    }

    fn inspector(&self) -> std::sync::MutexGuard<'_, Option<PushInspector>> {
        // Nothing panics while it is held.
        self.inspector.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs git processes between requests and responses.
#[derive(Clone)]
pub(crate) struct Transfers {
    limits: TransferLimits,
    life: Lifecycle,
}

impl Transfers {
    /// Transfers that keep `limits`.
    pub(crate) fn new(limits: TransferLimits, life: Lifecycle) -> Self {
        Self { limits, life }
    }

    /// Limits of each transfer.
    pub(crate) fn limits(&self) -> &TransferLimits {
        &self.limits
    }

    /// Runs the process to its end and streams its output; returns when the first bytes of it are there, so that an early failure
    /// is a status. `on_exit` lives as long as the process. The process is ended when the body is dropped.
    pub(crate) async fn run<K: OnExit>(
        &self,
        child: GitChild,
        input: RequestBody,
        prefix: Vec<u8>,
        on_exit: K,
    ) -> Result<Body, GitError> {
        let (sender, mut chunks) = channel();
        let limits = self.limits;
        self.life.spawn("transfer", async move {
            let ended_well = serve(&limits, child, input, sender).await;
            on_exit.end(ended_well).await;
        });
        let first = chunks.next().await.transpose()?;
        let head = stream::iter([Some(Bytes::from(prefix)), first]).filter_map(std::future::ready);
        let head = head.filter(|bytes| std::future::ready(!bytes.is_empty()));
        Ok(Body::from_stream(head.map(Ok).chain(chunks.into_stream())))
    }

    /// Output of a process that needs no input, cut short by an error if the process fails.
    pub(crate) fn output<K>(&self, child: GitChild, on_exit: K) -> impl Stream<Item = io::Result<Bytes>> + use<K>
    where
        K: Send + 'static,
    {
        let (sender, chunks) = channel();
        let limits = self.limits;
        self.life.spawn("transfer", async move {
            serve(&limits, child, RequestBody::empty(&limits), sender).await;
            drop(on_exit);
        });
        chunks.into_stream()
    }
}

/// Returns whether the process came to its own end.
async fn serve(limits: &TransferLimits, mut child: GitChild, mut input: RequestBody, sender: BodySender) -> bool {
    let inspector = Mutex::new(input.inspector.take());
    let (is_output_discarded, has_sent_output) = (AtomicBool::new(false), AtomicBool::new(false));
    let pipe = ProcessPipe { limits, idle: IdleTimer::new(), sender, inspector, is_output_discarded, has_sent_output };
    let name = child.name();
    let outcome = tokio::select! {
        outcome = work(&mut child, &mut input, &pipe) => outcome,
        () = pipe.sender.closed() => {
            tracing::debug!(name, "the client left");
            child.end().await;
            return false;
        }
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
    // The client may be gone: then there is nobody to tell.
    let report = tokio::time::timeout(limits.idle, pipe.sender.send(report));
    let (report, ()) = tokio::join!(report, child.end());
    if is_whole && report == Ok(Ok(())) {
        pipe.sender.end();
    }
    // The answer ends here; whoever is still sending must not find the door shut before it has read that.
    drop(pipe);
    if is_whole {
        drop(tokio::time::timeout(DRAIN_TIMEOUT, input.discard()).await);
    }
    false
}

async fn work(child: &mut GitChild, input: &mut RequestBody, pipe: &ProcessPipe<'_>) -> Result<(), GitError> {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let name = child.name();
    let (refusal, (sent, last), stderr_text) =
        tokio::try_join!(feed(input, stdin, pipe), drain(stdout, pipe), async { Ok(read_stderr(stderr).await) })?;
    let status = child.wait().await?;
    if !stderr_text.is_empty() {
        tracing::debug!(name, stderr = stderr_text, "git complained");
    }
    if let Some(refusal) = refusal {
        tracing::debug!(name, "a push was refused before its pack");
        // Nobody takes it when the client left; whoever waits for that is told.
        let _ = pipe.sender.send(Ok(refusal)).await;
        return Ok(());
    }
    // What git has to say about a failure is in its answer, unless that is a pack without words, or the like.
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

/// Gives the process the body. When it stops listening the rest is read and dropped, so that the client hears its answer.
/// Returns the answer of whoever looked at it and refused it; the process was cut off and is not to be heard then.
async fn feed(
    input: &mut RequestBody,
    mut stdin: Option<ChildStdin>,
    pipe: &ProcessPipe<'_>,
) -> Result<Option<Bytes>, GitError> {
    let mut refusal = None;
    let buffered = std::mem::take(&mut input.buffered);
    if !buffered.is_empty() {
        refusal = pipe.inspect(&buffered, &mut stdin);
        write(&mut stdin, &buffered).await;
    }
    loop {
        let mut bytes = match input.next().await {
            Ok(Some(bytes)) => bytes,
            Ok(None) => break,
            // The answer is made: a rest without end does not take it back.
            Err(_) if stdin.is_none() => return Ok(refusal),
            Err(error) => return Err(error),
        };
        pipe.idle.touch();
        while !bytes.is_empty() && stdin.is_some() {
            let out = match &mut input.inflate {
                None => std::mem::take(&mut bytes),
                Some(inflate) => {
                    Bytes::from(inflate.step(&mut bytes).map_err(|error| inflate_error(error, input.limit))?)
                }
            };
            refusal = pipe.inspect(&out, &mut stdin).or(refusal);
            write(&mut stdin, &out).await;
            pipe.idle.touch();
        }
    }
    if let Some(inflate) = &mut input.inflate
        && stdin.is_some()
    {
        let out = inflate.finish().map_err(|error| inflate_error(error, input.limit))?;
        refusal = pipe.inspect(&out, &mut stdin).or(refusal);
        write(&mut stdin, &out).await;
    }
    Ok(refusal)
}

/// Writes, or closes what does not listen any more.
async fn write(stdin: &mut Option<ChildStdin>, bytes: &[u8]) {
    if let Some(open) = stdin
        && open.write_all(bytes).await.is_err()
    {
        *stdin = None;
    }
}

/// Passes the process's answer on, unless it is muted; returns how many bytes that were, and the last of them.
async fn drain<R>(stdout: Option<R>, pipe: &ProcessPipe<'_>) -> Result<(usize, Bytes), GitError>
where
    R: AsyncRead + Unpin,
{
    let (mut sent, mut last) = (0, Bytes::new());
    let Some(mut stdout) = stdout else { return Ok((sent, last)) };
    let mut throughput = MinThroughput::new(pipe.limits.idle, pipe.limits.min_rate);
    loop {
        let mut chunk = BytesMut::with_capacity(CHUNK_BYTES);
        let mut count = stdout.read_buf(&mut chunk).await.map_err(GitError::io("reading from git"))?;
        if count == 0 {
            return Ok((sent, last));
        }
        if sent > CHUNK_BYTES && count < CHUNK_BYTES / 2 {
            tokio::time::sleep(COALESCE_DELAY).await;
            // What is not there yet, or went wrong, is found by the next read.
            count += stdout.read_buf(&mut chunk).now_or_never().and_then(Result::ok).unwrap_or(0);
        }
        if pipe.is_output_discarded.load(Ordering::Relaxed) {
            continue;
        }
        sent += count;
        last = chunk.freeze();
        pipe.has_sent_output.store(true, Ordering::Relaxed);
        pipe.idle.touch();
        if throughput.wait(pipe.sender.send(Ok(last.clone()))).await?.is_err() {
            // The client left; whoever waits for that ends the process.
            return std::future::pending().await;
        }
        throughput.add_bytes(count);
        pipe.idle.touch();
    }
}

/// Reads the process's complaints to their end, and keeps the first.
async fn read_stderr<R: AsyncRead + Unpin>(stderr: Option<R>) -> String {
    let Some(mut stderr) = stderr else { return String::new() };
    let (mut kept, mut chunk) = (Vec::new(), vec![0; 4096]);
    while let Ok(count) = stderr.read(&mut chunk).await {
        if count == 0 {
            break;
        }
        let room = MAX_LOGGED_STDERR_BYTES - kept.len();
        kept.extend_from_slice(&chunk[..count.min(room)]);
    }
    String::from_utf8_lossy(&kept).trim_end().to_owned()
}
