//! The program that git runs as its hooks.
//!
//! - `pre-receive` accepts or rejects a push as a whole while its objects are in quarantine. It checks the objects
//!   itself, and asks git-svc about the refs.
//! - `proc-receive` is a pipe between git and git-svc, which decides about each ref.
//! - `pack-objects` copies a pack that git-svc has, or creates one.
//! - `credential` is a pipe through which git asks git-svc for the login of a remote, so that it appears in no argument,
//!   environment variable or file.

mod pack_objects;

use std::{
    ffi::OsStr,
    io::{self, BufRead, Read, Write},
    net::Shutdown,
    os::unix::{ffi::OsStrExt as _, net::UnixStream},
    path::{Path, PathBuf},
    process::ExitCode,
};

use git_store::git::pktline::Packet;

use super::pack_check::find_flaw;

/// Environment variable with the path of git-svc's socket.
pub(crate) const SOCKET: &str = "FERRITE_HOOK_SOCKET";
/// Environment variable with the secret id of the push or fetch.
pub(crate) const SESSION: &str = "FERRITE_HOOK_SESSION";
/// Hook that updates the refs of a push.
pub(crate) const PROC_RECEIVE: &str = "proc-receive";
/// Hook that makes the packs of fetches.
pub(crate) const PACK_OBJECTS: &str = "pack-objects";
/// Hook that checks a push in quarantine, and the first word of its question to git-svc. The
/// protocol of `proc-receive` starts with a different word.
pub(crate) const PRE_RECEIVE: &str = "pre-receive";
/// First line of that question, with its version. Raise the version with every change of the
/// question or its answer: after an update, hooks run the new program at once, but git-svc only
/// after a restart. Every version ends its question with a flush and understands [`REJECTED`].
pub(crate) const QUESTION: &str = "pre-receive 1";
/// Credential helper for fetches from remotes (`gitcredentials`).
pub(crate) const CREDENTIAL: &str = "credential";
pub(crate) const NAMES: [&str; 4] = [PRE_RECEIVE, PROC_RECEIVE, PACK_OBJECTS, CREDENTIAL];
/// Argument with which git asks its credential helper for credentials. The others report their use.
const GET_CREDENTIALS: &str = "get";

/// First line of the answer if the push may continue.
pub(crate) const ACCEPTED: &str = "accepted";
/// First line of the answer if the push is rejected as a whole. The following lines are for the
/// client.
pub(crate) const REJECTED: &str = "rejected";

/// Reason for the client if git-svc and its hook have different versions.
pub(crate) const OTHER_VERSION: &str =
    "git-svc and its hook have different versions: restart git-svc after an update, then push again";
/// The same for a git-svc that is too old to say so.
const NO_ANSWER: &str = "git-svc does not respond: restart it after an update, then push again";

/// Environment variable of `pre-receive` with the limit on the refs of a push.
pub(crate) const MAX_REFS: &str = "FERRITE_HOOK_MAX_REFS";
/// Environment variable that git sets to the directory of a push's objects until `pre-receive` has
/// succeeded.
const QUARANTINE: &str = "GIT_QUARANTINE_PATH";

/// Returns whether git starts a hook under this name.
#[must_use]
pub fn is_name(name: &OsStr) -> bool {
    NAMES.into_iter().any(|hook| name == hook)
}

/// Returns whether this first line of a hook is a `pre-receive` question of a different version.
pub(crate) fn is_other_question(line: &[u8]) -> bool {
    line != QUESTION.as_bytes() && line.starts_with(PRE_RECEIVE.as_bytes())
}

/// Runs the hook under whose name the program was started. Call it first in `main` if [`is_name`]
/// returns true.
#[must_use]
pub fn main() -> ExitCode {
    let mut args = std::env::args_os();
    let called_as = args.next().unwrap_or_default();
    let is_called = |name: &str| Path::new(&called_as).file_name().is_some_and(|called| called == name);
    let (Some(socket), Some(session)) = (std::env::var_os(SOCKET), std::env::var_os(SESSION)) else {
        eprintln!("this program is only run by git");
        return ExitCode::from(2);
    };
    let socket = Path::new(&socket);
    if is_called(PRE_RECEIVE) {
        return match rejection(socket, session.as_bytes(), io::stdin().lock()) {
            Ok(None) => ExitCode::SUCCESS,
            Ok(Some(reason)) => failed(&reason),
            Err(error) => failed(&format!("the push cannot be accepted now: {error}")),
        };
    }
    if is_called(PACK_OBJECTS) {
        return pack_objects::main(socket, session.as_bytes(), &args.collect::<Vec<_>>());
    }
    if is_called(CREDENTIAL) && args.next().is_none_or(|action| action != GET_CREDENTIALS) {
        return ExitCode::SUCCESS;
    }
    match relay(socket, &session) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&format!("git-svc is not available now: {error}")),
    }
}

/// Prints the reason, which git passes on to the client.
fn failed(reason: &str) -> ExitCode {
    // In a single write, because git forwards what it reads piece by piece. A closed stderr is
    // ignored.
    drop(io::stderr().write_all(format!("{reason}\n").as_bytes()));
    ExitCode::FAILURE
}

/// Returns the reason to reject the whole push, in one or more lines. `refs` has one line for each
/// ref, written by git.
fn rejection(socket: &Path, session: &[u8], refs: impl BufRead) -> io::Result<Option<String>> {
    let limit: Option<usize> = std::env::var_os(MAX_REFS).and_then(|limit| limit.to_str()?.parse().ok());
    let (mut commands, mut count) = (Vec::new(), 0_usize);
    for line in refs.split(b'\n') {
        let line = line?;
        count += 1;
        if limit.is_none_or(|limit| count <= limit) {
            commands.push(line);
        }
    }
    if let Some(limit) = limit.filter(|limit| count > *limit) {
        return Ok(Some(format!("the push changes {count} refs; the limit is {limit}")));
    }
    let quarantine = std::env::var_os(QUARANTINE).map(PathBuf::from);
    // Before git-svc reads any of the objects. `PushInspector` has already checked their sizes.
    let flaw = quarantine.as_deref().map(|objects| find_flaw(objects, None)).transpose()?.flatten();
    if let Some(flaw) = flaw {
        return Ok(Some(flaw.to_string()));
    }
    ask(socket, session, quarantine.as_deref(), commands)
}

/// Asks git-svc about the refs of the push. Returns its reasons to reject the whole push, one per
/// line.
fn ask(socket: &Path, session: &[u8], quarantine: Option<&Path>, commands: Vec<Vec<u8>>) -> io::Result<Option<String>> {
    let quarantine = quarantine.and_then(Path::file_name).unwrap_or_default();
    let head = [session, QUESTION.as_bytes(), quarantine.as_bytes()].map(<[u8]>::to_vec);
    let mut question = Vec::new();
    for line in head.into_iter().chain(commands) {
        Packet::Data(line).encode(&mut question)?;
    }
    Packet::Flush.encode(&mut question)?;
    let mut stream = UnixStream::connect(socket)?;
    let mut answer = Vec::new();
    // Either may fail if git-svc closes the connection without an answer.
    drop(stream.write_all(&question).and_then(|()| stream.read_to_end(&mut answer)));
    let (mut lines, mut rest) = (Vec::new(), answer.as_slice());
    while let Some((packet, used)) = Packet::decode(rest)? {
        lines.extend(packet.line().map(|line| String::from_utf8_lossy(line).into_owned()));
        rest = &rest[used..];
    }
    match lines.split_first() {
        Some((verdict, _)) if verdict == ACCEPTED => Ok(None),
        Some((verdict, reasons)) if verdict == REJECTED => Ok(Some(reasons.join("\n"))),
        _ => Err(io::Error::other(NO_ANSWER)),
    }
}

/// Relays messages between git and git-svc until git-svc closes the connection.
fn relay(socket: &Path, session: &OsStr) -> io::Result<()> {
    let mut to = UnixStream::connect(socket)?;
    let mut from = to.try_clone()?;
    let session = session.as_bytes();
    to.write_all(format!("{:04x}", session.len() + 4).as_bytes())?;
    to.write_all(session)?;
    // Not joined: the thread ends with git's side of the pipe, or with the process.
    std::thread::spawn(move || {
        // An error here breaks the other direction too, where it is reported.
        drop(copy_unbuffered(&mut io::stdin().lock(), &mut to));
        drop(to.shutdown(Shutdown::Write));
    });
    copy_unbuffered(&mut from, &mut io::stdout().lock())
}

/// Copies without buffering, because each side waits for the messages of the other.
fn copy_unbuffered(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut buffer = [0; 8192];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => {
                to.write_all(&buffer[..count])?;
                to.flush()?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_git_svc_that_does_not_know_the_question_is_to_be_restarted() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("hook.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let service = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.read_exact(&mut [0; 4]).unwrap();
        });
        let error = ask(&socket, b"id", None, vec![vec![b'x'; 100]]).unwrap_err();
        service.join().unwrap();
        assert!(error.to_string().contains("restart it after an update"), "{error}");
    }

    #[test]
    fn only_questions_of_other_versions_are_refused() {
        for line in ["pre-receive", "pre-receive 0", "pre-receive 10"] {
            assert!(is_other_question(line.as_bytes()), "{line}");
        }
        for line in [QUESTION, "version=1\0push-options atomic", ""] {
            assert!(!is_other_question(line.as_bytes()), "{line}");
        }
    }
}
