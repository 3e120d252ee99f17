//! A git process between a request's body and an answer's: bounded buffers both ways, and an end whatever happens.

use std::{
    io,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use axum::body::{Body, BodyDataStream};
use bytes::{Bytes, BytesMut};
use futures_util::{FutureExt as _, Stream, StreamExt as _, stream};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _},
    process::ChildStdin,
    time::Instant,
};

use super::{
    gates::Turn,
    inflate::{Inflate, InflateError},
    pace::Pace,
    stream::{PIECE, Sender, channel},
};
use crate::{
    app::App,
    command::GitChild,
    error::GitError,
    layout::CLOCK_STEP,
    limits::LimitArgs,
    pktline,
    push::{Session, Watch},
};

/// How long a long answer waits for more when there is little: a few large pieces cost less on their way than many small ones.
const GATHER: Duration = Duration::from_millis(1);
/// How long a client that was told why it may not go on may still be sending.
const LINGER: Duration = Duration::from_secs(1);
/// What is kept of a process's complaints, for the log.
const COMPLAINTS: usize = 4 << 10;

/// What `upload-pack` complains of when a client of protocol v0 or v1 has asked where a shallow history ends: it expects more then,
/// which comes in the next request.
const SHALLOW_ROUND: &str = "the remote end hung up unexpectedly";

/// What a process is given.
pub(super) struct Input {
    body: BodyDataStream,
    /// Whether the body has ended.
    is_over: bool,
    /// What was peeked at: the process gets it first.
    front: Vec<u8>,
    /// What came after that and was not looked at.
    rest: Bytes,
    inflate: Option<Inflate>,
    /// Looks at what the process is given.
    watch: Option<Watch>,
    /// Bytes of the body as it comes.
    left: u64,
    limit: u64,
    pace: Pace,
}

/// What a process leaves to do when it has ended.
pub(super) trait Keep: Send + 'static {
    /// Does it. `ended_well` says that nobody ended the process before its time.
    fn end(self, app: &App, ended_well: bool) -> impl Future<Output = ()> + Send;
}

impl Keep for Turn {
    async fn end(self, _: &App, _: bool) {}
}

/// A fetch, whose hook may ask for as long as it runs.
pub(super) struct Fetching {
    pub(super) _turn: Turn,
    pub(super) _session: Session,
}

impl Keep for Fetching {
    async fn end(self, _: &App, _: bool) {}
}

/// A push: what it brought is still in quarantine when it was ended early.
impl Keep for (Turn, Session) {
    async fn end(self, app: &App, ended_well: bool) {
        let (_turn, session) = self;
        tidy(app, session, ended_well).await;
    }
}

/// Ends a push, and removes what it, or one before it, left behind when it was ended early.
pub(super) async fn tidy(app: &App, session: Session, ended_well: bool) {
    let repository = session.repository();
    drop(session);
    if !ended_well {
        app.sessions.litter(repository);
        // The times of files are a little behind the clock.
        tokio::time::sleep(2 * CLOCK_STEP).await;
    }
    let Some(before) = app.sessions.sweepable(repository) else { return };
    if let Err(error) = app.pool.run_blocking(move |store| store.remove_quarantines(repository, before)).await {
        tracing::warn!(repo.id = %repository, %error, "what a broken push left waits to be tidied");
    }
}

impl Input {
    /// Nothing.
    pub(super) fn empty(limits: &LimitArgs) -> Self {
        Self::plain(limits, Body::empty(), 0)
    }

    /// A body as it is, of at most `limit` bytes.
    pub(super) fn plain(limits: &LimitArgs, body: Body, limit: u64) -> Self {
        let (pace, body) = (Pace::new(limits.pause, limits.slowest), body.into_data_stream());
        let (front, rest) = (Vec::new(), Bytes::new());
        Self { body, is_over: false, front, rest, inflate: None, watch: None, left: limit, limit, pace }
    }

    /// A gzip body that holds at most `limit` bytes.
    pub(super) fn gzip(limits: &LimitArgs, body: Body, limit: u64) -> Self {
        Self { inflate: Some(Inflate::new(limit)), ..Self::plain(limits, body, limit) }
    }

    /// The same with somebody who looks at it.
    pub(super) fn watched(self, watch: Watch) -> Self {
        Self { watch: Some(watch), ..self }
    }

    /// The beginning of the input, as far as it was peeked at.
    pub(super) fn front(&self) -> &[u8] {
        &self.front
    }

    /// Reads on to look at some more of the front, which stays there for the process; false at the end.
    pub(super) async fn peek(&mut self) -> Result<bool, GitError> {
        let before = self.front.len();
        while self.front.len() == before {
            if self.rest.is_empty() {
                let Some(bytes) = self.next().await? else {
                    if let Some(mut inflate) = self.inflate.take() {
                        self.front.extend(inflate.finish().map_err(|error| refuse(error, self.limit))?);
                    }
                    break;
                };
                self.rest = bytes;
            }
            match &mut self.inflate {
                None => self.front.extend(std::mem::take(&mut self.rest)),
                Some(inflate) => {
                    let out = inflate.step(&mut self.rest).map_err(|error| refuse(error, self.limit))?;
                    self.front.extend(out);
                }
            }
        }
        Ok(self.front.len() > before)
    }

    /// Reads the rest, and forgets it.
    async fn discard(&mut self) {
        while self.body.next().await.is_some_and(|bytes| bytes.is_ok()) {}
    }

    /// The next bytes of the body, not inflated yet; `None` at its end.
    async fn next(&mut self) -> Result<Option<Bytes>, GitError> {
        if !self.rest.is_empty() {
            return Ok(Some(std::mem::take(&mut self.rest)));
        }
        if self.is_over {
            return Ok(None);
        }
        let next = self.pace.wait(self.body.next()).await?;
        let Some(bytes) = next else {
            self.is_over = true;
            return Ok(None);
        };
        let bytes = bytes.map_err(|_| GitError::ClientGone)?;
        self.pace.moved(bytes.len());
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

/// What the two sides of a process know of each other.
struct Talk<'a> {
    limits: &'a LimitArgs,
    progress: Progress,
    sender: Sender,
    /// Looks at what the process is given.
    watch: Mutex<Option<Watch>>,
    /// The process is not to be heard any more.
    is_muted: AtomicBool,
    /// The client heard something of the process.
    is_answered: AtomicBool,
}

impl Talk<'_> {
    /// Shows bytes to whoever looks at them, and cuts the process off if they are refused; returns the answer then.
    fn look(&self, bytes: &[u8], stdin: &mut Option<ChildStdin>) -> Option<Bytes> {
        let answer = self.watch().as_mut()?.see(bytes)?;
        // First: the process says something as soon as its input ends.
        self.is_muted.store(true, Ordering::Relaxed);
        *stdin = None;
        Some(Bytes::from(answer))
    }

    /// What the client hears of a failure: git's own words, if it pushes and has heard nothing yet.
    fn last_words(&self, error: GitError) -> Result<Bytes, GitError> {
        let is_limit = matches!(error, GitError::TimedOut { .. } | GitError::TooLarge { .. } | GitError::TooSlow);
        if !is_limit || self.is_answered.load(Ordering::Relaxed) {
            return Err(error);
        }
        let answer = self.watch().as_ref().and_then(|watch| watch.give_up(&error.to_string()));
        answer.map(Bytes::from).ok_or(error)
    }

    fn watch(&self) -> std::sync::MutexGuard<'_, Option<Watch>> {
        // Nothing panics while it is held.
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs the process to its end and streams its answer; returns when its first bytes are there, so that an early failure is a
/// status. `keep` lives as long as the process. The process is ended when the answer is dropped.
pub(super) async fn run<K: Keep>(
    app: &App,
    child: GitChild,
    input: Input,
    prefix: Vec<u8>,
    keep: K,
) -> Result<Body, GitError> {
    let (sender, mut pieces) = channel();
    let own = app.clone();
    app.life.spawn("transfer", async move {
        let ended_well = serve(&own.limits, child, input, sender).await;
        keep.end(&own, ended_well).await;
    });
    let first = pieces.next().await.transpose()?;
    let head = stream::iter([Some(Bytes::from(prefix)), first]).filter_map(std::future::ready);
    let head = head.filter(|bytes| std::future::ready(!bytes.is_empty()));
    Ok(Body::from_stream(head.map(Ok).chain(pieces.into_stream())))
}

/// The bytes of a process that needs no input, cut short by an error if it fails.
pub(super) fn output<K>(app: &App, child: GitChild, keep: K) -> impl Stream<Item = io::Result<Bytes>> + use<K>
where
    K: Send + 'static,
{
    let (sender, pieces) = channel();
    let own = app.clone();
    app.life.spawn("transfer", async move {
        serve(&own.limits, child, Input::empty(&own.limits), sender).await;
        drop(keep);
    });
    pieces.into_stream()
}

/// Returns whether the process came to its own end.
async fn serve(limits: &LimitArgs, mut child: GitChild, mut input: Input, sender: Sender) -> bool {
    let watch = Mutex::new(input.watch.take());
    let (is_muted, is_answered) = (AtomicBool::new(false), AtomicBool::new(false));
    let talk = Talk { limits, progress: Progress::new(), sender, watch, is_muted, is_answered };
    let name = child.name();
    let outcome = tokio::select! {
        outcome = work(&mut child, &mut input, &talk) => outcome,
        () = talk.sender.closed() => {
            tracing::debug!(name, "the client left");
            child.end().await;
            return false;
        }
        () = talk.progress.stalled(limits.idle) => Err(GitError::TimedOut { what: "the transfer" }),
        () = tokio::time::sleep(limits.transfer) => Err(GitError::TimedOut { what: "the transfer" }),
    };
    let Err(error) = outcome else {
        talk.sender.end();
        return true;
    };
    tracing::debug!(name, %error, "a transfer failed");
    let told = talk.last_words(error);
    let is_whole = told.is_ok();
    // The client may be gone: then there is nobody to tell.
    let told = tokio::time::timeout(limits.idle, talk.sender.send(told));
    let (told, ()) = tokio::join!(told, child.end());
    if is_whole && told == Ok(Ok(())) {
        talk.sender.end();
    }
    // The answer ends here; whoever is still sending must not find the door shut before it has read that.
    drop(talk);
    if is_whole {
        drop(tokio::time::timeout(LINGER, input.discard()).await);
    }
    false
}

async fn work(child: &mut GitChild, input: &mut Input, talk: &Talk<'_>) -> Result<(), GitError> {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let name = child.name();
    let (refusal, (sent, last), complaints) =
        tokio::try_join!(feed(input, stdin, talk), drain(stdout, talk), async { Ok(complaints(stderr).await) })?;
    let status = child.wait().await?;
    if !complaints.is_empty() {
        tracing::debug!(name, complaints, "git complained");
    }
    if let Some(refusal) = refusal {
        tracing::debug!(name, "a push was refused before its pack");
        // Nobody takes it when the client left; whoever waits for that is told.
        let _ = talk.sender.send(Ok(refusal)).await;
        return Ok(());
    }
    // What git has to say about a failure is in its answer, unless that is a pack without words, or the like.
    let is_cut = match name {
        "upload-pack" => {
            sent > pktline::MAX_PACKET && !complaints.contains(SHALLOW_ROUND) && !pktline::ends_in_reason(&last)
        }
        "cat-file" => true,
        _ => false,
    };
    if status.success() || (sent > 0 && !is_cut) {
        return Ok(());
    }
    if is_cut {
        return Err(GitError::Command { command: name, status: status.to_string(), stderr: complaints });
    }
    Err(GitError::invalid("body", "invalid", "git did not understand the request"))
}

/// Gives the process the body. When it stops listening the rest is read and dropped, so that the client hears its answer.
/// Returns the answer of whoever looked at it and refused it; the process was cut off and is not to be heard then.
async fn feed(input: &mut Input, mut stdin: Option<ChildStdin>, talk: &Talk<'_>) -> Result<Option<Bytes>, GitError> {
    let mut refusal = None;
    let front = std::mem::take(&mut input.front);
    if !front.is_empty() {
        refusal = talk.look(&front, &mut stdin);
        write(&mut stdin, &front).await;
    }
    loop {
        let mut bytes = match input.next().await {
            Ok(Some(bytes)) => bytes,
            Ok(None) => break,
            // The answer is made: a rest without end does not take it back.
            Err(_) if stdin.is_none() => return Ok(refusal),
            Err(error) => return Err(error),
        };
        talk.progress.moved();
        while !bytes.is_empty() && stdin.is_some() {
            let out = match &mut input.inflate {
                None => std::mem::take(&mut bytes),
                Some(inflate) => Bytes::from(inflate.step(&mut bytes).map_err(|error| refuse(error, input.limit))?),
            };
            refusal = talk.look(&out, &mut stdin).or(refusal);
            write(&mut stdin, &out).await;
            talk.progress.moved();
        }
    }
    if let Some(inflate) = &mut input.inflate
        && stdin.is_some()
    {
        let out = inflate.finish().map_err(|error| refuse(error, input.limit))?;
        refusal = talk.look(&out, &mut stdin).or(refusal);
        write(&mut stdin, &out).await;
    }
    Ok(refusal)
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

/// Passes the process's answer on, unless it is muted; returns how many bytes that were, and the last of them.
async fn drain<R>(stdout: Option<R>, talk: &Talk<'_>) -> Result<(usize, Bytes), GitError>
where
    R: AsyncRead + Unpin,
{
    let (mut sent, mut last) = (0, Bytes::new());
    let Some(mut stdout) = stdout else { return Ok((sent, last)) };
    let mut pace = Pace::new(talk.limits.idle, talk.limits.slowest);
    loop {
        let mut piece = BytesMut::with_capacity(PIECE);
        let mut count = stdout.read_buf(&mut piece).await.map_err(GitError::io("reading from git"))?;
        if count == 0 {
            return Ok((sent, last));
        }
        if sent > PIECE && count < PIECE / 2 {
            tokio::time::sleep(GATHER).await;
            // What is not there yet, or went wrong, is found by the next read.
            count += stdout.read_buf(&mut piece).now_or_never().and_then(Result::ok).unwrap_or(0);
        }
        if talk.is_muted.load(Ordering::Relaxed) {
            continue;
        }
        sent += count;
        last = piece.freeze();
        talk.is_answered.store(true, Ordering::Relaxed);
        talk.progress.moved();
        if pace.wait(talk.sender.send(Ok(last.clone()))).await?.is_err() {
            // The client left; whoever waits for that ends the process.
            return std::future::pending().await;
        }
        pace.moved(count);
        talk.progress.moved();
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
