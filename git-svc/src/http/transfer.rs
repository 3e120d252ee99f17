//! A git process between a request's body and an answer's: bounded buffers both ways, and an end whatever happens.

use std::{
    io,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};

use axum::body::{Body, BodyDataStream};
use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt as _, stream};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _},
    process::ChildStdin,
    sync::mpsc,
    time::Instant,
};
use tokio_stream::wrappers::ReceiverStream;

use super::gates::Turn;
use super::inflate::{Inflate, InflateError};
use crate::{
    app::App,
    command::GitChild,
    error::GitError,
    push::{Session, Watch},
};

/// Bytes read from a process at once; four such pieces may wait for the client.
const PIECE: usize = 64 << 10;
const PIECES: usize = 4;
/// Neither side moved a byte for this long.
const IDLE: Duration = Duration::from_secs(60);
/// The whole transfer.
pub(super) const TOTAL: Duration = Duration::from_secs(3600);
/// How long a client may pause inside its request.
pub(super) const PAUSE: Duration = Duration::from_secs(30);
/// The fewest bytes a second that a request may come in; a client that pauses more than [`PAUSE`] in all is measured by it.
pub(super) const SLOWEST: u64 = 1024;
/// What is kept of a process's complaints, for the log.
const COMPLAINTS: usize = 4 << 10;

/// What a process is given.
pub(super) struct Input {
    body: BodyDataStream,
    inflate: Option<Inflate>,
    /// Looks at what the process is given.
    watch: Option<Watch>,
    /// Bytes of the body as it comes.
    left: u64,
    limit: u64,
    /// How long the client may pause, and was waited for.
    pause: Duration,
    waited: Duration,
}

/// What a process leaves to do when it has ended.
pub(super) trait Keep: Send + 'static {
    /// Does it. `ended_well` says that nobody ended the process before its time.
    fn end(self, app: &App, ended_well: bool) -> impl Future<Output = ()> + Send;
}

impl Keep for Turn {
    async fn end(self, _: &App, _: bool) {}
}

/// A push: what it brought is still in quarantine when it was ended early.
impl Keep for (Turn, Session) {
    async fn end(self, app: &App, ended_well: bool) {
        let (_turn, session) = self;
        tidy(app, session, ended_well).await;
    }
}

/// Ends a push, and removes what it left behind if it was ended early.
pub(super) async fn tidy(app: &App, session: Session, ended_well: bool) {
    let repository = session.repository();
    drop(session);
    if ended_well {
        return;
    }
    let before = app.sessions.oldest(repository);
    if let Err(error) = app.pool.run_blocking(move |store| store.remove_quarantines(repository, before)).await {
        tracing::warn!(repo.id = %repository, %error, "what a broken push left waits to be tidied");
    }
}

impl Input {
    /// Nothing.
    pub(super) fn empty() -> Self {
        Self::plain(Body::empty(), 0)
    }

    /// A body as it is, of at most `limit` bytes.
    pub(super) fn plain(body: Body, limit: u64) -> Self {
        let (body, waited) = (body.into_data_stream(), Duration::ZERO);
        Self { body, inflate: None, watch: None, left: limit, limit, pause: PAUSE, waited }
    }

    /// A gzip body that holds at most `limit` bytes.
    pub(super) fn gzip(body: Body, limit: u64) -> Self {
        Self { inflate: Some(Inflate::new(limit)), ..Self::plain(body, limit) }
    }

    /// The same with somebody who looks at it.
    pub(super) fn watched(self, watch: Watch) -> Self {
        Self { watch: Some(watch), ..self }
    }

    /// The next bytes of the body, not inflated yet; `None` at its end.
    async fn next(&mut self) -> Result<Option<Bytes>, GitError> {
        let earned = Duration::from_secs((self.limit - self.left) / SLOWEST);
        let allowed = (self.pause + earned).saturating_sub(self.waited).min(self.pause);
        let asked = Instant::now();
        let next = tokio::time::timeout(allowed, self.body.next()).await.map_err(|_| GitError::TooSlow)?;
        self.waited += asked.elapsed();
        let Some(bytes) = next else { return Ok(None) };
        let bytes = bytes.map_err(|_| GitError::ClientGone)?;
        let left = self.left.checked_sub(bytes.len() as u64);
        self.left = left.ok_or(GitError::TooLarge { what: "the request", limit: self.limit })?;
        Ok(Some(bytes))
    }
}

/// When the last byte moved.
pub(super) struct Progress {
    start: Instant,
    moved_ms: AtomicU64,
}

impl Progress {
    pub(super) fn new() -> Self {
        Self { start: Instant::now(), moved_ms: AtomicU64::new(0) }
    }

    pub(super) fn moved(&self) {
        let now = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.moved_ms.store(now, Ordering::Relaxed);
    }

    /// Returns when nothing moved for `limit`.
    pub(super) async fn stalled(&self, limit: Duration) {
        loop {
            let moved = self.start + Duration::from_millis(self.moved_ms.load(Ordering::Relaxed));
            if moved.elapsed() >= limit {
                return;
            }
            tokio::time::sleep_until(moved + limit).await;
        }
    }
}

type Pieces = mpsc::Sender<Result<Bytes, GitError>>;

/// Runs the process to its end and streams its answer; returns when its first bytes are there, so that an early failure is a
/// status. `keep` lives as long as the process. The process is ended when the answer is dropped.
pub(super) async fn run<K: Keep>(
    app: &App,
    child: GitChild,
    input: Input,
    prefix: Vec<u8>,
    keep: K,
) -> Result<Body, GitError> {
    let (sender, mut receiver) = mpsc::channel(PIECES);
    let own = app.clone();
    app.life.spawn("transfer", async move {
        let ended_well = serve(child, input, sender).await;
        keep.end(&own, ended_well).await;
    });
    let first = match receiver.recv().await {
        Some(first) => first?,
        None => Bytes::new(),
    };
    let head = stream::iter([Bytes::from(prefix), first]).filter(|bytes| std::future::ready(!bytes.is_empty()));
    let rest = ReceiverStream::new(receiver);
    Ok(Body::from_stream(head.map(Ok).chain(rest.map(|piece| piece.map_err(io::Error::other)))))
}

/// The bytes of a process that needs no input, cut short by an error if it fails.
pub(super) fn output<K>(app: &App, child: GitChild, keep: K) -> impl Stream<Item = io::Result<Bytes>> + use<K>
where
    K: Send + 'static,
{
    let (sender, receiver) = mpsc::channel(PIECES);
    app.life.spawn("transfer", async move {
        serve(child, Input::empty(), sender).await;
        drop(keep);
    });
    ReceiverStream::new(receiver).map(|piece| piece.map_err(io::Error::other))
}

/// Returns whether the process came to its own end.
async fn serve(mut child: GitChild, input: Input, sender: Pieces) -> bool {
    let progress = Progress::new();
    let name = child.name();
    let outcome = tokio::select! {
        outcome = work(&mut child, input, &sender, &progress) => outcome,
        () = sender.closed() => {
            tracing::debug!(name, "the client left");
            child.end().await;
            return false;
        }
        () = progress.stalled(IDLE) => Err(GitError::TimedOut { what: "the transfer" }),
        () = tokio::time::sleep(TOTAL) => Err(GitError::TimedOut { what: "the transfer" }),
    };
    let Err(error) = outcome else { return true };
    tracing::debug!(name, %error, "a transfer failed");
    let told = async {
        // The client may be gone: then there is nobody to tell.
        drop(tokio::time::timeout(IDLE, sender.send(Err(error))).await);
    };
    tokio::join!(told, child.end());
    false
}

async fn work(child: &mut GitChild, input: Input, sender: &Pieces, progress: &Progress) -> Result<(), GitError> {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let name = child.name();
    let is_muted = AtomicBool::new(false);
    let (refusal, sent, complaints) =
        tokio::try_join!(feed(input, stdin, progress, &is_muted), drain(stdout, sender, progress, &is_muted), async {
            Ok(complaints(stderr).await)
        },)?;
    let status = child.wait().await?;
    if !complaints.is_empty() {
        tracing::debug!(name, complaints, "git complained");
    }
    if let Some(refusal) = refusal {
        tracing::debug!(name, "a push was refused before its pack");
        // Nobody takes it when the client left; whoever waits for that is told.
        drop(sender.send(Ok(refusal)).await);
        return Ok(());
    }
    if status.success() || (sent > 0 && name != "cat-file") {
        // What git has to say about a failure is in its answer.
        return Ok(());
    }
    if name == "cat-file" {
        return Err(GitError::Command { command: name, status: status.to_string(), stderr: complaints });
    }
    Err(GitError::invalid("body", "invalid", "git did not understand the request"))
}

/// Gives the process the body. When it stops listening the rest is read and dropped, so that the client hears its answer.
/// Returns the answer of whoever looked at it and refused it; the process was cut off and is not to be heard then.
async fn feed(
    mut input: Input,
    mut stdin: Option<ChildStdin>,
    progress: &Progress,
    is_muted: &AtomicBool,
) -> Result<Option<Bytes>, GitError> {
    let (mut watch, mut refusal) = (input.watch.take(), None);
    while let Some(mut bytes) = input.next().await? {
        progress.moved();
        while !bytes.is_empty() && stdin.is_some() {
            let out = match &mut input.inflate {
                None => std::mem::take(&mut bytes),
                Some(inflate) => Bytes::from(inflate.step(&mut bytes).map_err(|error| refuse(error, input.limit))?),
            };
            refusal = look(&mut watch, &out, &mut stdin, is_muted).or(refusal);
            write(&mut stdin, &out).await;
            progress.moved();
        }
    }
    if let Some(inflate) = &mut input.inflate
        && stdin.is_some()
    {
        let out = inflate.finish().map_err(|error| refuse(error, input.limit))?;
        refusal = look(&mut watch, &out, &mut stdin, is_muted).or(refusal);
        write(&mut stdin, &out).await;
    }
    Ok(refusal)
}

/// Shows bytes to whoever looks at them, and cuts the process off if they are refused; returns the answer then.
fn look(
    watch: &mut Option<Watch>,
    bytes: &[u8],
    stdin: &mut Option<ChildStdin>,
    is_muted: &AtomicBool,
) -> Option<Bytes> {
    let answer = watch.as_mut()?.see(bytes)?;
    // First: the process says something as soon as its input ends.
    is_muted.store(true, Ordering::Relaxed);
    *stdin = None;
    Some(Bytes::from(answer))
}

fn refuse(error: InflateError, limit: u64) -> GitError {
    match error {
        InflateError::Broken => GitError::invalid("body", "invalid", "is not in gzip form"),
        InflateError::TooLarge => GitError::TooLarge { what: "the request", limit },
    }
}

/// Writes, or closes what does not listen any more.
async fn write(stdin: &mut Option<ChildStdin>, bytes: &[u8]) {
    if let Some(open) = stdin
        && open.write_all(bytes).await.is_err()
    {
        *stdin = None;
    }
}

/// Passes the process's answer on, unless it is muted; returns how many bytes that were.
async fn drain<R>(
    stdout: Option<R>,
    sender: &Pieces,
    progress: &Progress,
    is_muted: &AtomicBool,
) -> Result<u64, GitError>
where
    R: AsyncRead + Unpin,
{
    let Some(mut stdout) = stdout else { return Ok(0) };
    let mut sent = 0;
    loop {
        let mut piece = BytesMut::with_capacity(PIECE);
        let count = stdout.read_buf(&mut piece).await.map_err(GitError::io("reading from git"))?;
        if count == 0 {
            return Ok(sent);
        }
        if is_muted.load(Ordering::Relaxed) {
            continue;
        }
        sent += count as u64;
        progress.moved();
        if sender.send(Ok(piece.freeze())).await.is_err() {
            // The client left; whoever waits for that ends the process.
            return std::future::pending().await;
        }
        progress.moved();
    }
}

/// Reads the process's complaints to their end, and keeps the first.
async fn complaints<R: AsyncRead + Unpin>(stderr: Option<R>) -> String {
    let Some(mut stderr) = stderr else { return String::new() };
    let (mut kept, mut piece) = (Vec::new(), vec![0; 4096]);
    while let Ok(count) = stderr.read(&mut piece).await {
        if count == 0 {
            break;
        }
        let room = COMPLAINTS - kept.len();
        kept.extend_from_slice(&piece[..count.min(room)]);
    }
    String::from_utf8_lossy(&kept).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pieces of a body, each after a pause.
    fn slow(piece: usize, pause: Duration) -> Body {
        Body::from_stream(stream::unfold((), move |()| async move {
            tokio::time::sleep(pause).await;
            Some((Ok::<_, io::Error>(Bytes::from(vec![0; piece])), ()))
        }))
    }

    /// The time after which a body is refused, if it is within two seconds.
    async fn refused_after(body: Body) -> Option<Duration> {
        let pause = Duration::from_millis(300);
        let (mut input, start) = (Input { pause, ..Input::plain(body, 1 << 40) }, Instant::now());
        while start.elapsed() < Duration::from_secs(2) {
            match input.next().await {
                Err(GitError::TooSlow) => return Some(start.elapsed()),
                other => assert!(other.unwrap().is_some()),
            }
        }
        None
    }

    #[tokio::test]
    async fn a_client_that_pauses_or_drips_loses_its_turn() {
        let ms = Duration::from_millis;
        assert!(refused_after(slow(1 << 20, ms(1000))).await.unwrap() < ms(1000));
        assert!(refused_after(slow(1, ms(50))).await.unwrap() < ms(1000));
        assert_eq!(refused_after(slow(64 << 10, ms(50))).await, None);
    }
}
