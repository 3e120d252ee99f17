//! Sessions: a git process that speaks with a client of SSH until both are done. [`ferrite_proto::session`] is the protocol.

use std::{
    io,
    path::Path as FilePath,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use axum::{
    Extension,
    body::Body,
    extract::{Path, Request, State},
    response::Response,
};
use ferrite_kit::auth::Caller;
use ferrite_proto::{
    id::RepositoryId,
    operation::{RECEIVE_PACK, UPLOAD_PACK},
    session::{
        FRAME_HEADER_BYTES as HEADER_BYTES, FrameHeader as Header, FrameKind as Kind, MAX_CONTENT_BYTES as MAX_BYTES,
        UPGRADE_PROTOCOL as UPGRADE,
    },
};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader},
    process::ChildStdin,
    sync::Mutex,
    time::Instant,
};

use super::{
    answer::Refusal,
    gates::{Client, Gate, Turn},
    git::{COMMANDS, FETCH_REQUEST, protocol, repository},
    pace::Pace,
    query,
    seat::Seat,
    transfer::{Progress, tidy},
};
use crate::{
    app::App,
    command::{Exchange, GitChild, ReceivePack},
    error::GitError,
    limits::LimitArgs,
    packs::Fetch,
    protection::Actor,
    push::{self, Push, Watch},
};

/// How long the connection may take to become a session.
const OPENING: Duration = Duration::from_secs(10);
/// How long the client may take to hear why its session ended.
const FAREWELL: Duration = Duration::from_secs(5);
/// What one client may ask for in all, where it sends no pack.
const REQUESTS: u64 = 4 * FETCH_REQUEST;
/// Bytes read from a process at once.
const PIECE: usize = MAX_BYTES;
/// The status of a process that was ended by a signal.
const SIGNALLED: u8 = 255;

/// What a session is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Service {
    Fetch,
    Push,
    Archive,
}

impl Service {
    fn parse(name: &[u8]) -> Option<Self> {
        match name {
            b"git-upload-pack" => Some(Self::Fetch),
            b"git-receive-pack" => Some(Self::Push),
            b"git-upload-archive" => Some(Self::Archive),
            _ => None,
        }
    }

    /// Who may fetch may have an archive.
    fn operation(self) -> &'static str {
        match self {
            Self::Fetch | Self::Archive => UPLOAD_PACK,
            Self::Push => RECEIVE_PACK,
        }
    }

    fn gate(self, app: &App) -> &Gate {
        match self {
            Self::Fetch => &app.gates.fetch,
            Self::Archive => &app.gates.archive,
            Self::Push => &app.gates.push,
        }
    }

    /// Bytes that the client may send.
    fn limit(self, app: &App) -> u64 {
        match self {
            Self::Fetch | Self::Archive => REQUESTS,
            Self::Push => app.max_push_bytes.saturating_add(COMMANDS),
        }
    }
}

/// A process, and what it holds while it runs.
struct Started {
    service: Service,
    repository: RepositoryId,
    client: Client,
    child: GitChild,
    turn: Turn,
    session: Turn,
    /// What hooks are told by.
    hooked: Option<push::Session>,
}

/// `GET /git/{id}/session?service=…`: starts a process and makes a session of the connection.
pub(super) async fn session(
    State(app): State<App>,
    Path(id): Path<String>,
    Extension(caller): Extension<Caller>,
    mut request: Request,
) -> Result<Response, Refusal> {
    let id = repository(&id)?;
    let name = query::value(request.uri().query().unwrap_or_default(), "service").unwrap_or_default();
    let service = Service::parse(&name).ok_or_else(|| {
        GitError::invalid("service", "invalid", "must be git-upload-pack, git-receive-pack or git-upload-archive")
    })?;
    let grant = app.authorize_as(&caller, service.operation(), id).await?;
    if !is_upgrade(request.headers()) {
        return Err(GitError::invalid("upgrade", "required", format!("must be {UPGRADE}")).into());
    }
    let upgrade = hyper::upgrade::on(&mut request);
    let repository = RepositoryId(id);
    let client = Client::of(&caller, &grant, request.headers());
    let session = app.gates.session.enter(repository, &client).await?;
    let turn = service.gate(&app).enter(repository, &client).await?;
    let hooked = match service {
        Service::Push => Some(app.sessions.open(Push::new(repository, Actor::of(&grant)))),
        Service::Fetch => {
            let client = client.clone();
            Some(app.sessions.open_fetch(Fetch { repository, epoch: grant.epoch, client }))
        }
        Service::Archive => None,
    };
    let child = start(&app, service, repository, request.headers(), hooked.as_ref())?;
    let started = Started { service, repository, client, child, turn, session, hooked };
    let own = app.clone();
    app.life.spawn("session", async move { serve(&own, upgrade, started).await });
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    response.headers_mut().insert(header::UPGRADE, HeaderValue::from_static(UPGRADE));
    Ok(response)
}

fn is_upgrade(headers: &HeaderMap) -> bool {
    headers.get(header::UPGRADE).is_some_and(|value| value.as_bytes() == UPGRADE.as_bytes())
}

fn start(
    app: &App,
    service: Service,
    repository: RepositoryId,
    headers: &HeaderMap,
    hooked: Option<&push::Session>,
) -> Result<GitChild, GitError> {
    let path = app.store.path(repository);
    let hook_env = hooked.map(push::Session::env).unwrap_or_default();
    match service {
        Service::Fetch => {
            metrics::counter!("ferrite_git_fetches_total").increment(1);
            app.git.serve_fetch(&path, Exchange::Session, protocol(headers).as_ref(), app.hooks.all(), hook_env)
        }
        Service::Archive => app.git.upload_archive(&path),
        Service::Push => {
            metrics::counter!("ferrite_git_pushes_total").increment(1);
            let hooks = Some(app.hooks.all().to_owned());
            let receive = ReceivePack { exchange: Exchange::Session, protocol: protocol(headers), hooks, hook_env };
            app.git.receive_pack(&path, &receive)
        }
    }
}

/// Runs the process to its end, or ends it.
async fn serve(app: &App, upgrade: OnUpgrade, started: Started) {
    let Started { service, repository, client, mut child, turn, session, hooked } = started;
    let name = child.name();
    let outcome = match tokio::time::timeout(OPENING, upgrade).await {
        Ok(Ok(stream)) => {
            let (reader, writer) = tokio::io::split(TokioIo::new(stream));
            let talk = Talk {
                progress: Progress::new(),
                seat: Seat::new(service.gate(app), repository, client, turn),
                limit: service.limit(app),
                limits: &app.limits,
                secret: app.store.path(repository),
                line: Line::new(writer),
            };
            let watch = (service == Service::Push).then(|| Watch::new(app.max_push_objects));
            talk.run(&mut child, reader, watch).await
        }
        Ok(Err(_)) | Err(_) => Err(GitError::ClientGone),
    };
    let ended_well = outcome.is_ok();
    if let Err(error) = outcome {
        tracing::debug!(name, %error, "a session was ended");
        child.end().await;
    }
    if let Some(push) = hooked
        && service == Service::Push
    {
        tidy(app, push, ended_well).await;
    }
    drop(session);
}

/// A process and a client that speak with each other.
struct Talk<'a, W> {
    progress: Progress,
    seat: Seat<'a>,
    /// Bytes that the client may send.
    limit: u64,
    limits: &'a LimitArgs,
    /// Where the repository is, which is nobody's business.
    secret: std::path::PathBuf,
    line: Line<W>,
}

impl<W: AsyncWrite + Unpin> Talk<'_, W> {
    async fn run<R: AsyncRead + Unpin>(
        &self,
        child: &mut GitChild,
        reader: R,
        watch: Option<Watch>,
    ) -> Result<(), GitError> {
        let outcome = tokio::select! {
            outcome = self.work(child, reader, watch) => outcome,
            never = self.seat.leave_when_quiet(&self.progress) => match never {},
            () = self.progress.stalled(self.limits.session_idle) => Err(GitError::TimedOut { what: "the session" }),
            () = tokio::time::sleep(self.limits.transfer) => Err(GitError::TimedOut { what: "the session" }),
        };
        if let Err(error) = &outcome
            && !matches!(error, GitError::ClientGone)
        {
            // The client may not be listening: then there is nobody to tell.
            drop(tokio::time::timeout(FAREWELL, self.line.farewell(error)).await);
        }
        outcome
    }

    async fn work<R: AsyncRead + Unpin>(
        &self,
        child: &mut GitChild,
        reader: R,
        watch: Option<Watch>,
    ) -> Result<(), GitError> {
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let answer = async {
            tokio::try_join!(self.pass_on(stdout, Kind::Data), self.pass_on(stderr, Kind::Errors))?;
            let status = child.wait().await?;
            let status = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(SIGNALLED);
            self.line.send(Kind::Exit, &[status]).await
        };
        tokio::select! {
            answered = answer => answered,
            error = self.feed(reader, stdin, watch) => Err(error),
        }
    }

    /// Gives the process what the client sends; returns why no more comes. What it does not want to hear is dropped, and so is the
    /// rest of a push that was refused: a client that cannot send all of its pack does not read why.
    async fn feed<R: AsyncRead + Unpin>(
        &self,
        reader: R,
        mut stdin: Option<ChildStdin>,
        mut watch: Option<Watch>,
    ) -> GitError {
        let mut reader = BufReader::with_capacity(PIECE, reader);
        let (mut content, mut left, mut pace) =
            (vec![0; MAX_BYTES], self.limit, Pace::new(self.limits.pause, self.limits.slowest));
        let mut is_refused = false;
        loop {
            let asked = Instant::now();
            let mut bytes = [0; HEADER_BYTES];
            if reader.read_exact(&mut bytes).await.is_err() {
                return GitError::ClientGone;
            }
            let Ok(header) = Header::decode(bytes) else { return GitError::ClientGone };
            let content = &mut content[..header.length];
            if reader.read_exact(content).await.is_err() {
                return GitError::ClientGone;
            }
            self.progress.moved();
            match header.kind {
                Kind::Data => {
                    let Some(rest) = left.checked_sub(content.len() as u64) else {
                        return GitError::TooLarge { what: "what the client sends", limit: self.limit };
                    };
                    left = rest;
                    if let Some(answer) = watch.as_mut().and_then(|watch| watch.see(content)) {
                        // The process is not to see these bytes, nor to hear an end: it would have its own words for that.
                        is_refused = true;
                        if let Err(error) = self.line.send(Kind::Data, &answer).await {
                            return error;
                        }
                    }
                    self.seat.sit_for(&mut pace, asked, content.len()).await;
                    if !is_refused
                        && let Some(open) = &mut stdin
                        && open.write_all(content).await.is_err()
                    {
                        stdin = None;
                    }
                    self.progress.moved();
                }
                // There is nothing more to say, whether the client hears this or not.
                Kind::End if is_refused => {
                    return self.line.send(Kind::Exit, &[1]).await.err().unwrap_or(GitError::ClientGone);
                }
                Kind::End => stdin = None,
                Kind::Errors | Kind::Exit => return GitError::ClientGone,
            }
        }
    }

    /// Passes on what the process writes, to its end.
    async fn pass_on<R: AsyncRead + Unpin>(&self, from: Option<R>, kind: Kind) -> Result<(), GitError> {
        let Some(mut from) = from else { return Ok(()) };
        let (mut piece, mut pace) = (vec![0; PIECE], Pace::new(self.limits.idle, self.limits.slowest));
        loop {
            let count = from.read(&mut piece).await.map_err(GitError::io("reading from git"))?;
            if count == 0 {
                return Ok(());
            }
            self.progress.moved();
            match kind {
                Kind::Errors => pace.wait(self.line.send(kind, &without(&piece[..count], &self.secret))).await??,
                Kind::Data | Kind::Exit | Kind::End => pace.wait(self.line.send(kind, &piece[..count])).await??,
            }
            pace.moved(count);
            self.progress.moved();
        }
    }
}

/// `text` without the place of the repository.
fn without(text: &[u8], secret: &FilePath) -> Vec<u8> {
    String::from_utf8_lossy(text).replace(&*secret.to_string_lossy(), "repository").into_bytes()
}

/// The way to the client: whole frames, one after the other.
struct Line<W> {
    writer: Mutex<W>,
    /// Whether the last frame was sent to its end.
    is_whole: AtomicBool,
}

impl<W: AsyncWrite + Unpin> Line<W> {
    fn new(writer: W) -> Self {
        Self { writer: Mutex::new(writer), is_whole: AtomicBool::new(true) }
    }

    async fn send(&self, kind: Kind, content: &[u8]) -> Result<(), GitError> {
        for part in content.chunks(MAX_BYTES) {
            let header = Header { kind, length: part.len() }.encode();
            let mut writer = self.writer.lock().await;
            self.is_whole.store(false, Ordering::Relaxed);
            let sent = write(&mut *writer, &header, part).await;
            sent.map_err(|_| GitError::ClientGone)?;
            self.is_whole.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Says why the session ends here.
    async fn farewell(&self, error: &GitError) -> Result<(), GitError> {
        if !self.is_whole.load(Ordering::Relaxed) {
            return Ok(());
        }
        let text = match error {
            GitError::TimedOut { .. } | GitError::TooLarge { .. } | GitError::TooSlow => format!("Ferrite: {error}\n"),
            _ => "Ferrite: internal error\n".to_owned(),
        };
        self.send(Kind::Errors, text.as_bytes()).await?;
        self.send(Kind::Exit, &[1]).await
    }
}

async fn write<W: AsyncWrite + Unpin>(writer: &mut W, header: &[u8], content: &[u8]) -> io::Result<()> {
    writer.write_all(header).await?;
    writer.write_all(content).await?;
    writer.flush().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_are_named_in_full() {
        assert_eq!(Service::parse(b"git-upload-pack"), Some(Service::Fetch));
        assert_eq!(Service::parse(b"git-upload-archive").map(Service::operation), Some(UPLOAD_PACK));
        for wrong in [&b""[..], b"upload-pack", b"git-upload-pack ", b"git-shell", b"\xff"] {
            assert_eq!(Service::parse(wrong), None);
        }
    }

    #[test]
    fn nobody_learns_where_repositories_are() {
        let told = without(b"fatal: '/data/git/1.git' is odd\n", FilePath::new("/data/git/1.git"));
        assert_eq!(told, b"fatal: 'repository' is odd\n");
    }

    #[tokio::test]
    async fn after_a_broken_frame_there_is_no_farewell() {
        let (near, mut far) = tokio::io::duplex(64);
        let line = Line::new(near);
        let content = [0; 1000];
        let cut = tokio::time::timeout(Duration::from_millis(50), line.send(Kind::Data, &content)).await;
        assert!(cut.is_err());
        line.farewell(&GitError::TimedOut { what: "x" }).await.unwrap();
        drop(line);
        let mut all = Vec::new();
        far.read_to_end(&mut all).await.unwrap();
        assert_eq!(all.len(), 64);
    }
}
