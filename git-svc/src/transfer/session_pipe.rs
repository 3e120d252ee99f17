//! Connects a git process to an SSH client that exchanges frames of [`ferrite_proto::session`],
//! until the process exits or the session fails.

use std::{
    io,
    path::Path,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};

use ferrite_proto::session::{FRAME_HEADER_BYTES, FrameHeader, FrameKind, MAX_CONTENT_BYTES};
use git_store::{
    git::command::{CpuWatch, GitChild},
    types::{error::GitError, limits::TransferLimits},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader},
    process::ChildStdin,
    sync::Mutex,
    time::Instant,
};

use super::{
    fetch::PrefixFilter,
    push::{PushInspection, count_refusal},
};
use crate::admission::{
    throughput::{IdleTimer, MinThroughput},
    yielding_permit::YieldingPermit,
};

/// Time limit to send the error that ends a session.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
const CHUNK_BYTES: usize = MAX_CONTENT_BYTES;
/// Exit status of a process killed by a signal.
const EXIT_SIGNALLED: u8 = 255;

/// One session, with its limits and the client's side of the connection.
pub(crate) struct SessionPipe<'a, W> {
    pub(crate) idle: IdleTimer,
    pub(crate) permit: YieldingPermit<'a>,
    /// Limit on the data from the client, in bytes.
    pub(crate) limit: u64,
    /// Limit on the data from the process, in bytes.
    pub(crate) output_limit: u64,
    /// Whether git has received all of the client's input.
    pub(crate) has_all_input: AtomicBool,
    /// Set for fetches, whose requests have ref prefixes.
    pub(crate) filters_prefixes: bool,
    pub(crate) limits: &'a TransferLimits,
    /// Path of the repository, which is removed from messages to the client.
    pub(crate) secret: std::path::PathBuf,
    pub(crate) writer: FrameWriter<W>,
}

impl<W: AsyncWrite + Unpin> SessionPipe<'_, W> {
    pub(crate) async fn run<R: AsyncRead + Unpin>(
        &self,
        child: &mut GitChild,
        reader: R,
        inspection: Option<PushInspection>,
    ) -> Result<(), GitError> {
        let received = AtomicU64::new(0);
        let cpu = inspection.as_ref().and_then(|inspection| child.cpu_watch(inspection.cpu));
        let outcome = tokio::select! {
            outcome = self.work(child, reader, inspection, &received) => outcome,
            error = cpu_spent(cpu, &received) => Err(error),
            never = self.permit.release_when_idle(&self.idle, || self.may_wait_for_client()) => match never {},
            () = self.idle.expired(self.limits.session_idle) => Err(GitError::TimedOut { what: "the session" }),
            () = tokio::time::sleep(self.limits.total) => Err(GitError::TimedOut { what: "the session" }),
        };
        if let Err(error) = &outcome {
            self.close_with(error).await;
        }
        outcome
    }

    /// Returns whether git may be waiting for the client. Without side-band, a working git is as
    /// silent as a waiting one.
    fn may_wait_for_client(&self) -> bool {
        !self.has_all_input.load(Ordering::Relaxed) || self.writer.is_writing()
    }

    /// Ends the session with an error, unless the client has disconnected.
    pub(crate) async fn close_with(&self, error: &GitError) {
        if !matches!(error, GitError::ClientGone) {
            // Ignore errors: the client has disconnected or does not read.
            drop(tokio::time::timeout(CLOSE_TIMEOUT, self.writer.send_error_and_close(error)).await);
        }
    }

    /// Ends the session with our response instead of running a process, which would have failed.
    pub(crate) async fn refuse(&self, response: &[u8]) -> Result<(), GitError> {
        let sent = tokio::time::timeout(CLOSE_TIMEOUT, async {
            self.writer.send(FrameKind::Data, response).await?;
            self.writer.send(FrameKind::Exit, &[1]).await
        });
        sent.await.map_err(|_| GitError::TooSlow)?
    }

    async fn work<R: AsyncRead + Unpin>(
        &self,
        child: &mut GitChild,
        reader: R,
        inspection: Option<PushInspection>,
        received: &AtomicU64,
    ) -> Result<(), GitError> {
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let response = async {
            tokio::try_join!(self.forward(stdout, FrameKind::Data), self.forward(stderr, FrameKind::Errors))?;
            let status = child.wait().await?;
            let status = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(EXIT_SIGNALLED);
            self.writer.send(FrameKind::Exit, &[status]).await
        };
        tokio::select! {
            answered = response => answered,
            error = self.feed(reader, stdin, inspection, received) => Err(error),
        }
    }

    /// Writes the client's data to the process's stdin. Returns the error that ends the session.
    /// Drops data once the process has stopped reading, and the rest of a rejected push: a client
    /// reads the report only after it has sent its whole pack.
    async fn feed<R: AsyncRead + Unpin>(
        &self,
        reader: R,
        mut stdin: Option<ChildStdin>,
        inspection: Option<PushInspection>,
        received: &AtomicU64,
    ) -> GitError {
        let mut reader = BufReader::with_capacity(CHUNK_BYTES, reader);
        let (mut content, mut left, mut throughput) =
            (vec![0; MAX_CONTENT_BYTES], self.limit, MinThroughput::new(self.limits.pause, self.limits.min_rate));
        let mut is_refused = false;
        let mut prefixes = self.filters_prefixes.then(PrefixFilter::default);
        loop {
            let asked = Instant::now();
            let mut bytes = [0; FRAME_HEADER_BYTES];
            if reader.read_exact(&mut bytes).await.is_err() {
                return GitError::ClientGone;
            }
            let Ok(header) = FrameHeader::decode(bytes) else { return GitError::ClientGone };
            let content = &mut content[..header.length];
            if reader.read_exact(content).await.is_err() {
                return GitError::ClientGone;
            }
            self.idle.touch();
            match header.kind {
                FrameKind::Data => {
                    let Some(rest) = left.checked_sub(content.len() as u64) else {
                        return GitError::TooLarge { what: "the data from the client", limit: self.limit };
                    };
                    left = rest;
                    let sum = self.limit - left;
                    received.store(sum, Ordering::Relaxed);
                    if !is_refused
                        && let Some(inspection) = &inspection
                        && let Some(response) = inspection.inspect(content, sum).await
                    {
                        // The process gets neither these bytes nor the end of its input, because it
                        // would report an error.
                        is_refused = true;
                        if let Err(error) = self.writer.send(FrameKind::Data, &response).await {
                            return error;
                        }
                    }
                    self.permit.acquire_for(&mut throughput, asked, content.len()).await;
                    self.note_input(inspection.as_ref().filter(|_| !is_refused));
                    let passed = prefixes.as_mut().map(|filter| filter.push(content));
                    if !is_refused
                        && let Some(open) = &mut stdin
                        && open.write_all(passed.as_deref().unwrap_or(&*content)).await.is_err()
                    {
                        stdin = None;
                    }
                    self.idle.touch();
                }
                // Nothing is left to say, whether or not the client receives this.
                FrameKind::End if is_refused => {
                    return self.writer.send(FrameKind::Exit, &[1]).await.err().unwrap_or(GitError::ClientGone);
                }
                FrameKind::End => {
                    if let (Some(open), Some(filter)) = (&mut stdin, &mut prefixes) {
                        // A process that has stopped reading has finished its part.
                        drop(open.write_all(&filter.finish()).await);
                    }
                    stdin = None;
                    self.has_all_input.store(true, Ordering::Relaxed);
                }
                FrameKind::Errors | FrameKind::Exit => return GitError::ClientGone,
            }
        }
    }

    /// Records that git is getting input, which may be the last of a push.
    fn note_input(&self, inspection: Option<&PushInspection>) {
        // Waiting for the permit may have taken long, which does not count as the client's pause.
        self.idle.touch();
        if inspection.is_some_and(PushInspection::is_complete) {
            self.has_all_input.store(true, Ordering::Relaxed);
        }
    }

    async fn forward<R: AsyncRead + Unpin>(&self, from: Option<R>, kind: FrameKind) -> Result<(), GitError> {
        let Some(mut from) = from else { return Ok(()) };
        let (mut chunk, mut throughput) =
            (vec![0; CHUNK_BYTES], MinThroughput::new(self.limits.idle, self.limits.min_rate));
        let mut left = self.output_limit;
        loop {
            let count = from.read(&mut chunk).await.map_err(GitError::io("reading from git"))?;
            if count == 0 {
                return Ok(());
            }
            self.idle.touch();
            match kind {
                FrameKind::Errors => {
                    throughput.wait(self.writer.send(kind, &redact(&chunk[..count], &self.secret))).await??;
                }
                FrameKind::Data | FrameKind::Exit | FrameKind::End => {
                    let rest = left.checked_sub(count as u64);
                    let limit = self.output_limit;
                    left = rest.ok_or(GitError::TooLarge { what: "the output of git", limit })?;
                    throughput.wait(self.writer.send(kind, &chunk[..count])).await??;
                }
            }
            throughput.add_bytes(count);
            self.idle.touch();
        }
    }
}

/// Reads data frames until `length` finds a complete message, and returns it. Drops what follows it
/// in the last frame. Fails with `ClientGone` for other frames or the end of the stream, and with
/// `TooLarge` above `max_bytes`.
pub(crate) async fn read_message<R: AsyncRead + Unpin>(
    reader: &mut R,
    max_bytes: usize,
    length: impl Fn(&[u8]) -> Result<Option<usize>, GitError>,
) -> Result<Vec<u8>, GitError> {
    let mut message = Vec::new();
    loop {
        let mut bytes = [0; FRAME_HEADER_BYTES];
        reader.read_exact(&mut bytes).await.map_err(|_| GitError::ClientGone)?;
        let header = FrameHeader::decode(bytes).map_err(|_| GitError::ClientGone)?;
        if header.kind != FrameKind::Data {
            return Err(GitError::ClientGone);
        }
        let start = message.len();
        if start + header.length > max_bytes {
            return Err(GitError::TooLarge { what: "the request", limit: max_bytes as u64 });
        }
        message.resize(start + header.length, 0);
        reader.read_exact(&mut message[start..]).await.map_err(|_| GitError::ClientGone)?;
        if let Some(length) = length(&message)? {
            message.truncate(length);
            return Ok(message);
        }
    }
}

/// Returns when the git processes of a push have used up their CPU time. Never returns without a
/// watch.
async fn cpu_spent(cpu: Option<CpuWatch>, received: &AtomicU64) -> GitError {
    let Some(cpu) = cpu else { return std::future::pending().await };
    let error = cpu.spent(|| received.load(Ordering::Relaxed)).await;
    count_refusal("cpu");
    error
}

/// Replaces the path of the repository in `text`.
fn redact(text: &[u8], secret: &Path) -> Vec<u8> {
    String::from_utf8_lossy(text).replace(&*secret.to_string_lossy(), "repository").into_bytes()
}

/// Writes frames to the client, one at a time.
pub(crate) struct FrameWriter<W> {
    writer: Mutex<W>,
    /// False if the last frame was only partly written.
    is_whole: AtomicBool,
}

impl<W: AsyncWrite + Unpin> FrameWriter<W> {
    pub(crate) fn new(writer: W) -> Self {
        Self { writer: Mutex::new(writer), is_whole: AtomicBool::new(true) }
    }

    /// Returns whether a frame waits for the client to read.
    fn is_writing(&self) -> bool {
        !self.is_whole.load(Ordering::Relaxed)
    }

    async fn send(&self, kind: FrameKind, content: &[u8]) -> Result<(), GitError> {
        for part in content.chunks(MAX_CONTENT_BYTES) {
            let header = FrameHeader { kind, length: part.len() }.encode();
            let mut writer = self.writer.lock().await;
            self.is_whole.store(false, Ordering::Relaxed);
            let sent = write(&mut *writer, &header, part).await;
            sent.map_err(|_| GitError::ClientGone)?;
            self.is_whole.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Sends the error and exit status 1, unless the last frame is incomplete.
    async fn send_error_and_close(&self, error: &GitError) -> Result<(), GitError> {
        if self.is_writing() {
            return Ok(());
        }
        let text = if error.is_transfer_limit() {
            format!("Ferrite: {error}\n")
        } else {
            "Ferrite: internal error\n".to_owned()
        };
        self.send(FrameKind::Errors, text.as_bytes()).await?;
        self.send(FrameKind::Exit, &[1]).await
    }
}

async fn write<W: AsyncWrite + Unpin>(writer: &mut W, header: &[u8], content: &[u8]) -> io::Result<()> {
    writer.write_all(header).await?;
    writer.write_all(content).await?;
    writer.flush().await
}

#[cfg(test)]
mod tests {
    use ferrite_proto::id::RepositoryId;
    use git_store::git::command::{Exchange, Git, GitOptions, HookSettings};
    use tokio::io::DuplexStream;

    use super::*;
    use crate::{
        admission::limiter::{ClientKey, Limiter},
        testing::push_limits,
        transfer::push::PushInspector,
    };

    const LIMITS: TransferLimits = TransferLimits {
        idle: Duration::from_secs(20),
        total: Duration::from_secs(60),
        pause: Duration::from_secs(20),
        min_rate: 0,
        session_idle: Duration::from_secs(60),
    };
    /// Idle time after which a permit is released.
    const IDLE: Duration = Duration::from_millis(100);

    /// The bytes that a client without side-band sends to push a commit.
    fn push_of_a_commit(folder: &Path) -> Vec<u8> {
        let repo = git2::Repository::init_bare(folder).unwrap();
        let tree = repo.find_tree(repo.treebuilder(None).unwrap().write().unwrap()).unwrap();
        let who = git2::Signature::new("Ada", "ada@example.com", &git2::Time::new(0, 0)).unwrap();
        let commit = repo.commit(None, &who, &who, "one", &tree, &[]).unwrap();
        let (mut builder, mut pack) = (repo.packbuilder().unwrap(), git2::Buf::new());
        builder.insert_commit(commit).unwrap();
        builder.write_buf(&mut pack).unwrap();
        let command = format!("{} {commit} refs/heads/main\0report-status", "0".repeat(40));
        [format!("{:04x}{command}0000", command.len() + 4).as_bytes(), &pack].concat()
    }

    async fn send(stream: &mut DuplexStream, content: &[u8]) {
        let header = FrameHeader::of(FrameKind::Data, content).unwrap().encode();
        stream.write_all(&[&header, content].concat()).await.unwrap();
    }

    /// Reads frames until `is_last` returns true. Returns their contents.
    async fn receive(stream: &mut DuplexStream, is_last: impl Fn(FrameKind, &[u8]) -> bool) -> Vec<u8> {
        let mut contents = Vec::new();
        loop {
            let mut bytes = [0; FRAME_HEADER_BYTES];
            stream.read_exact(&mut bytes).await.unwrap();
            let header = FrameHeader::decode(bytes).unwrap();
            let mut content = vec![0; header.length];
            stream.read_exact(&mut content).await.unwrap();
            contents.extend_from_slice(&content);
            if is_last(header.kind, &content) {
                return contents;
            }
        }
    }

    /// Waits until this number of permits is held.
    async fn until_held(limiter: &Limiter, count: usize) {
        let held = async {
            while limiter.running() != count {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), held).await.expect("the permit is acquired or released");
    }

    #[tokio::test]
    async fn a_push_without_side_band_keeps_its_permit_while_git_works_and_not_while_it_waits() {
        let folder = tempfile::tempdir().unwrap();
        let [repository, hooks, go] = ["r.git", "hooks", "go"].map(|name| folder.path().join(name));
        git2::Repository::init_bare(&repository).unwrap();
        std::fs::create_dir(&hooks).unwrap();
        let work = format!("while [ ! -e '{}' ]; do sleep 0.05; done; exit 1", go.display());
        ferrite_core::testing::script(&hooks.join("pre-receive"), &work);
        let git = Git::find(GitOptions::default()).await.unwrap();
        let hooks = HookSettings { path: &hooks, env: Vec::new() };
        let mut child = git.receive_pack(&repository, Exchange::Session, None, Some(hooks)).unwrap();
        let (limiter, user) = (Limiter::new("test", 1, 1), ClientKey::User(1));
        let permit = limiter.acquire(RepositoryId(1), &user).await.unwrap();
        let (near, mut client) = tokio::io::duplex(1 << 20);
        let (reader, writer) = tokio::io::split(near);
        let pipe = SessionPipe {
            idle: IdleTimer::new(),
            permit: YieldingPermit::new(&limiter, RepositoryId(1), user, permit).released_after(IDLE),
            limit: u64::MAX,
            output_limit: u64::MAX,
            has_all_input: AtomicBool::new(false),
            filters_prefixes: false,
            limits: &LIMITS,
            secret: repository.clone(),
            writer: FrameWriter::new(writer),
        };
        let inspection = PushInspection::new(PushInspector::new(push_limits(10)));
        let push = push_of_a_commit(&folder.path().join("source.git"));
        let (before, last) = push.split_at(push.len() - 1);
        let talk = async {
            receive(&mut client, |_, content| content.ends_with(b"0000")).await;
            send(&mut client, before).await;
            tokio::time::sleep(3 * IDLE).await;
            until_held(&limiter, 0).await;
            send(&mut client, last).await;
            until_held(&limiter, 1).await;
            tokio::time::sleep(5 * IDLE).await;
            assert_eq!(limiter.running(), 1, "git is at work");
            std::fs::write(&go, b"").unwrap();
            receive(&mut client, |kind, _| kind == FrameKind::Exit).await
        };
        let (ended, report) = tokio::join!(pipe.run(&mut child, reader, Some(inspection)), talk);
        ended.unwrap();
        let report = String::from_utf8_lossy(&report).into_owned();
        assert!(report.contains("unpack ok") && report.contains("pre-receive hook declined"), "{report}");
    }

    #[test]
    fn nobody_learns_where_repositories_are() {
        let told = redact(b"fatal: '/data/git/1.git' is odd\n", Path::new("/data/git/1.git"));
        assert_eq!(told, b"fatal: 'repository' is odd\n");
    }

    #[tokio::test]
    async fn after_a_broken_frame_there_is_no_farewell() {
        let (near, mut far) = tokio::io::duplex(64);
        let writer = FrameWriter::new(near);
        let content = [0; 1000];
        let cut = tokio::time::timeout(Duration::from_millis(50), writer.send(FrameKind::Data, &content)).await;
        assert!(cut.is_err());
        writer.send_error_and_close(&GitError::TimedOut { what: "x" }).await.unwrap();
        drop(writer);
        let mut all = Vec::new();
        far.read_to_end(&mut all).await.unwrap();
        assert_eq!(all.len(), 64);
    }
}
