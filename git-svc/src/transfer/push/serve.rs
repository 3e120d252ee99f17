//! The socket for hooks, git's `proc-receive` protocol, version 1 (`githooks`), which the hook
//! relays to it, and the question of `pre-receive`.

use std::{
    error::Error,
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use ferrite_core::Lifecycle;
use git_store::{
    disk::{
        delta_mark,
        repositories::{QUARANTINE_PREFIX, RepositoryStore},
    },
    git::pktline::Packet,
    repo::objects::full_id,
    types::error::GitError,
};
use git2::Oid;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader},
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
};
use tracing::Instrument as _;
use uuid::Uuid;

use super::{
    credential,
    decision::find_rejection,
    hook,
    push::Push,
    receive::{PushRequest, RefCommand, receive},
    service::PushService,
    sessions::{HookKind, HookSessions, HookSocket},
};
use crate::transfer::fetch::FetchService;

/// Time limit for each step of a hook's request; git sends them at once.
const HOOK_TIMEOUT: Duration = Duration::from_secs(30);
/// How often to check whether the process is stopping and no push or fetch is left.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(100);
const MAX_COMMANDS: usize = 100_000;

/// Directory in which git finds its hooks.
#[derive(Clone, Debug)]
pub(crate) struct Hooks(PathBuf);

impl Hooks {
    pub(crate) fn all(&self) -> &Path {
        &self.0
    }

    /// Returns the path of the hook of fetches.
    pub(crate) fn pack_objects(&self) -> PathBuf {
        self.0.join(hook::PACK_OBJECTS)
    }

    pub(crate) fn credential(&self) -> PathBuf {
        self.0.join(hook::CREDENTIAL)
    }
}

/// Installs links to the hook program under the names of our hooks, each replaced in one step.
/// Other hooks do not exist.
pub(crate) fn install_hooks(store: &Path, program: &Path) -> Result<Hooks, GitError> {
    let hooks = Hooks(store.join("hooks"));
    let install = |path: PathBuf| {
        let beside = store.join("incoming").join(format!("hook-{}", Uuid::new_v4()));
        std::os::unix::fs::symlink(program, &beside)?;
        fs::rename(&beside, path)
    };
    let installed = fs::create_dir_all(hooks.all())
        .and_then(|()| hook::NAMES.into_iter().try_for_each(|name| install(hooks.all().join(name))));
    installed.map_err(GitError::io("installing the hooks"))?;
    Ok(hooks)
}

/// Serves the hooks of pushes and fetches.
#[derive(Clone)]
pub(crate) struct HookServer {
    pub(crate) sessions: HookSessions,
    pub(crate) pushes: PushService,
    pub(crate) fetches: FetchService,
    pub(crate) life: Lifecycle,
}

impl HookServer {
    /// Serves hooks until the process stops and the last push or fetch has ended.
    pub(crate) async fn run(self, socket: HookSocket) {
        // Running pushes and fetches still need the socket while the process stops.
        while !(self.life.is_stopping() && self.sessions.is_empty()) {
            let accepted = tokio::select! {
                accepted = socket.listener.accept() => accepted,
                () = tokio::time::sleep(STOP_POLL_INTERVAL) => continue,
            };
            match accepted {
                Ok((stream, _)) => {
                    let own = self.clone();
                    self.life.spawn("hook", async move {
                        if let Err(error) = own.serve_connection(stream).await {
                            tracing::debug!(%error, "a hook disconnected early");
                        }
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a hook");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    }

    async fn serve_connection(&self, stream: UnixStream) -> io::Result<()> {
        let (reader, writer) = stream.into_split();
        let mut reader = BufReader::new(reader);
        let named = tokio::time::timeout(HOOK_TIMEOUT, Packet::read(&mut reader));
        let session = named.await.map_err(|_| io::ErrorKind::TimedOut)??;
        let Some(id) = session.as_ref().and_then(Packet::line) else { return Ok(()) };
        let served = async {
            match self.sessions.find(id) {
                Some(HookKind::Push(push)) => serve_push(&self.pushes, &push, reader, writer).await,
                Some(HookKind::Fetch(fetch)) => self.fetches.serve_hook(fetch, reader, writer).await,
                Some(HookKind::RemoteFetch(logins)) => credential::serve(&logins, reader, writer).await,
                None => Ok(()),
            }
        };
        served.instrument(self.sessions.hook_span(id)).await
    }
}

/// Capabilities of a push, which git sends before its commands.
#[derive(Clone, Copy, Debug, Default)]
struct PushCapabilities {
    is_atomic: bool,
    has_options: bool,
}

async fn serve_push(
    service: &PushService,
    push: &Push,
    mut reader: BufReader<OwnedReadHalf>,
    mut writer: OwnedWriteHalf,
) -> io::Result<()> {
    let first = tokio::time::timeout(HOOK_TIMEOUT, Packet::read(&mut reader));
    let first = first.await.map_err(|_| io::ErrorKind::TimedOut)??;
    match first.as_ref().and_then(Packet::line) {
        Some(line) if line == hook::QUESTION.as_bytes() => {
            return serve_pre_receive(service, push, reader, writer).await;
        }
        Some(line) if hook::is_other_question(line) => return refuse_question(reader, writer).await,
        _ => {}
    }
    let asked = tokio::time::timeout(HOOK_TIMEOUT, negotiate(first, &mut reader, &mut writer));
    let capabilities = asked.await.map_err(|_| io::ErrorKind::TimedOut)??;
    let asked = tokio::time::timeout(HOOK_TIMEOUT, read_request(&mut reader, capabilities));
    let request = asked.await.map_err(|_| io::ErrorKind::TimedOut)??;
    let answers = receive(service, push, request).await;
    let mut bytes = Vec::new();
    for (name, answer) in answers {
        let line = match answer {
            Ok(()) => [b"ok ", name.as_slice()].concat(),
            Err(reason) => [b"ng ", name.as_slice(), b" ", reason.as_bytes()].concat(),
        };
        Packet::Data(line).encode(&mut bytes)?;
    }
    Packet::Flush.encode(&mut bytes)?;
    writer.write_all(&bytes).await?;
    writer.shutdown().await
}

/// Answers `pre-receive` whether to reject the push as a whole, with lines for the client.
async fn serve_pre_receive(
    service: &PushService,
    push: &Push,
    mut reader: BufReader<OwnedReadHalf>,
    writer: OwnedWriteHalf,
) -> io::Result<()> {
    let asked = async {
        let line = read_line(&mut reader).await?.ok_or_else(|| invalid("missing quarantine"))?;
        let quarantine = parse_quarantine(&line).ok_or_else(|| invalid("not a quarantine"))?;
        let capabilities = PushCapabilities { is_atomic: push.state.is_atomic(), has_options: false };
        Ok::<_, io::Error>((quarantine, read_request(&mut reader, capabilities).await?))
    };
    let asked = tokio::time::timeout(HOOK_TIMEOUT, asked);
    let (quarantine, request) = asked.await.map_err(|_| io::ErrorKind::TimedOut)??;
    let rejection = match find_rejection(service, push, request, quarantine).await {
        None => clear_mark(service, push).await.err().map(|_| vec!["the push cannot be accepted now".to_owned()]),
        rejection => rejection,
    };
    answer_pre_receive(writer, rejection).await
}

/// Rejects a push whose `pre-receive` asks in another version: the program was replaced while
/// git-svc still runs the old one.
async fn refuse_question<R, W>(mut reader: R, writer: W) -> io::Result<()>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    tracing::warn!("a hook has a different version: the program was replaced, restart git-svc");
    // Read the rest first, because unread lines would make the answer get lost.
    let rest = async {
        while let Some(Packet::Data(_)) = Packet::read(&mut reader).await? {}
        Ok::<_, io::Error>(())
    };
    tokio::time::timeout(HOOK_TIMEOUT, rest).await.map_err(|_| io::ErrorKind::TimedOut)??;
    answer_pre_receive(writer, Some(vec![hook::OTHER_VERSION.to_owned()])).await
}

/// Writes the answer to `pre-receive`. `rejection` has the lines for the client if the push is
/// rejected.
async fn answer_pre_receive<W: AsyncWrite + Unpin>(mut writer: W, rejection: Option<Vec<String>>) -> io::Result<()> {
    let mut bytes = Vec::new();
    let verdict = if rejection.is_some() { hook::REJECTED } else { hook::ACCEPTED };
    Packet::text(verdict).encode(&mut bytes)?;
    for line in rejection.unwrap_or_default() {
        Packet::text(&line).encode(&mut bytes)?;
    }
    writer.write_all(&bytes).await?;
    writer.shutdown().await
}

/// Removes the mark of having no large deltas from a repository if an accepted push has some. git
/// moves them out of quarantine once it has the answer.
async fn clear_mark(service: &PushService, push: &Push) -> Result<(), GitError> {
    if !push.state.has_large_deltas() {
        return Ok(());
    }
    let id = push.repository;
    let clear = move |store: &RepositoryStore| {
        delta_mark::clear(&store.path(id)).map_err(GitError::io("removing the mark of a repository"))
    };
    let cleared = service.pool.run_blocking(clear).await;
    if let Err(error) = &cleared {
        tracing::error!(repo.id = %id, %error, "cannot accept a push");
    }
    cleared
}

/// Parses the name of a quarantine in the object directory. The inner value is `None` for a push
/// without objects, whose name is empty.
fn parse_quarantine(line: &[u8]) -> Option<Option<String>> {
    let name = std::str::from_utf8(line).ok()?;
    let is_quarantine = name.starts_with(QUARANTINE_PREFIX) && !name.contains('/');
    (name.is_empty() || is_quarantine).then(|| Some(name.to_owned()).filter(|name| !name.is_empty()))
}

/// Negotiates the version and returns the capabilities of the push. `first` is git's first packet.
async fn negotiate<R: AsyncRead + Unpin>(
    first: Option<Packet>,
    reader: &mut R,
    writer: &mut OwnedWriteHalf,
) -> io::Result<PushCapabilities> {
    let mut asked = PushCapabilities::default();
    let mut next = first;
    while let Some(Packet::Data(line)) = next {
        let mut parts = line.split(|byte| *byte == 0);
        if parts.next().is_none_or(|version| version.trim_ascii() != b"version=1") {
            return Err(invalid("a version other than 1"));
        }
        for feature in parts.flat_map(|capabilities| capabilities.split(u8::is_ascii_whitespace)) {
            asked.is_atomic |= feature == b"atomic";
            asked.has_options |= feature == b"push-options";
        }
        next = Packet::read(reader).await?;
    }
    let mut bytes = Vec::new();
    // git sends the push options only if the reply names them.
    let taken = if asked.has_options { "version=1\0push-options\n" } else { "version=1\n" };
    Packet::text(taken).encode(&mut bytes)?;
    Packet::Flush.encode(&mut bytes)?;
    writer.write_all(&bytes).await?;
    Ok(asked)
}

async fn read_request<R: AsyncRead + Unpin>(reader: &mut R, capabilities: PushCapabilities) -> io::Result<PushRequest> {
    let mut request = PushRequest { is_atomic: capabilities.is_atomic, ..PushRequest::default() };
    while let Some(line) = read_line(reader).await? {
        let command = parse_command(&line).ok_or_else(|| invalid("not a ref command"))?;
        if request.commands.len() == MAX_COMMANDS {
            return Err(invalid("too many ref commands"));
        }
        request.commands.push(command);
    }
    if capabilities.has_options {
        while let Some(line) = read_line(reader).await? {
            // Not expected, because `PushInspector` has rejected options beyond the limits.
            request.options.add(&line).map_err(invalid)?;
        }
    }
    Ok(request)
}

fn invalid(what: impl Into<Box<dyn Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Reads the next line of a list; `None` at its end.
async fn read_line<R: AsyncRead + Unpin>(reader: &mut R) -> io::Result<Option<Vec<u8>>> {
    let packet = Packet::read(reader).await?.ok_or(io::ErrorKind::UnexpectedEof)?;
    Ok(packet.line().map(<[u8]>::to_vec))
}

/// Parses `<old id> <new id> <ref>`.
fn parse_command(line: &[u8]) -> Option<RefCommand> {
    let (old, rest) = line.split_at_checked(40)?;
    let (new, name) = rest.strip_prefix(b" ")?.split_at_checked(40)?;
    Some(RefCommand { name: name.strip_prefix(b" ")?.to_vec(), old: id(old)?, new: id(new)? })
}

/// Parses an object id. The inner value is `None` for zeros.
fn id(digits: &[u8]) -> Option<Option<Oid>> {
    let id = full_id(digits)?;
    Some((!id.is_zero()).then_some(id))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn commands_are_two_ids_and_a_name() {
        let (zero, one) = ("0".repeat(40), "1".repeat(40));
        let command = parse_command(format!("{zero} {one} refs/heads/a b").as_bytes()).unwrap();
        assert_eq!(
            (command.old, command.new.unwrap().to_string(), command.name.as_slice()),
            (None, one.clone(), &b"refs/heads/a b"[..])
        );
        for wrong in [
            String::new(),
            zero.clone(),
            format!("{zero} {one}"),
            format!("{zero} {one}refs/x"),
            format!("{} {one} x", "g".repeat(40)),
        ] {
            assert!(parse_command(wrong.as_bytes()).is_none(), "{wrong}");
        }
    }

    #[test]
    fn a_quarantine_is_a_name_and_no_path() {
        let name = "tmp_objdir-incoming-a1B2c3";
        assert_eq!(parse_quarantine(name.as_bytes()), Some(Some(name.to_owned())));
        assert_eq!(parse_quarantine(b""), Some(None));
        for wrong in ["pack", "..", "tmp_objdir-incoming-/../..", "/tmp_objdir-incoming-a"] {
            assert_eq!(parse_quarantine(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[tokio::test]
    async fn a_question_of_another_version_is_answered_with_what_to_do() {
        let (near, mut far) = tokio::io::duplex(1 << 10);
        let mut question = Vec::new();
        Packet::text("something new").encode(&mut question).unwrap();
        Packet::Flush.encode(&mut question).unwrap();
        far.write_all(&question).await.unwrap();
        let (reader, writer) = tokio::io::split(near);
        refuse_question(reader, writer).await.unwrap();
        let verdict = Packet::read(&mut far).await.unwrap().unwrap();
        assert_eq!(verdict.line(), Some(hook::REJECTED.as_bytes()));
        let reason = Packet::read(&mut far).await.unwrap().unwrap();
        assert_eq!(reason.line(), Some(hook::OTHER_VERSION.as_bytes()));
        assert_eq!(Packet::read(&mut far).await.unwrap(), None);
    }

    proptest! {
        #[test]
        fn any_line_is_a_command_or_none(line in proptest::collection::vec(any::<u8>(), 0..120)) {
            if let Some(command) = parse_command(&line) {
                prop_assert_eq!(&line[82..], &command.name[..]);
            }
        }
    }

    #[test]
    fn hooks_are_replaced_in_one_step() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("incoming")).unwrap();
        for program in ["/bin/true", "/bin/false"] {
            let hooks = install_hooks(folder.path(), Path::new(program)).unwrap();
            for name in hook::NAMES {
                assert_eq!(fs::read_link(hooks.all().join(name)).unwrap(), Path::new(program));
            }
            assert_eq!(fs::read_dir(hooks.all()).unwrap().count(), hook::NAMES.len());
        }
    }
}
