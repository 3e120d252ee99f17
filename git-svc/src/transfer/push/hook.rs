//! What git runs as its hooks. `pre-receive` refuses a push as a whole while its objects are in quarantine, so that nothing of it is
//! kept. `proc-receive` is a pipe between git and git-svc, which decides about each ref. `pack-objects` hands out a pack that git-svc
//! has, or has it made.

mod pack_objects;

use std::{
    ffi::OsStr,
    io::{self, BufRead, Read, Write},
    net::Shutdown,
    os::unix::{ffi::OsStrExt as _, net::UnixStream},
    path::Path,
    process::ExitCode,
};

use super::delta_depth::has_deep_chains;

/// Names the socket of git-svc to the hook.
pub(crate) const SOCKET: &str = "FERRITE_HOOK_SOCKET";
/// Names the push or the fetch to git-svc.
pub(crate) const SESSION: &str = "FERRITE_HOOK_SESSION";
/// The hook of pushes.
pub(crate) const PROC_RECEIVE: &str = "proc-receive";
/// The hook of fetches.
pub(crate) const PACK_OBJECTS: &str = "pack-objects";
/// The hook of pushes that are still in quarantine.
pub(crate) const PRE_RECEIVE: &str = "pre-receive";
/// All hooks.
pub(crate) const NAMES: [&str; 3] = [PRE_RECEIVE, PROC_RECEIVE, PACK_OBJECTS];

/// Tells `pre-receive` how many refs a push may change.
pub(crate) const MAX_REFS: &str = "FERRITE_HOOK_MAX_REFS";
/// Where git keeps the objects of a push until `pre-receive` has ended well.
const QUARANTINE: &str = "GIT_QUARANTINE_PATH";

/// Whether git starts a hook under this name.
#[must_use]
pub fn is_name(name: &OsStr) -> bool {
    NAMES.into_iter().any(|hook| name == hook)
}

/// Does what the hook does under whose name the program was started. Call it first in `main`, when [`is_name`] says so.
#[must_use]
pub fn main() -> ExitCode {
    let mut args = std::env::args_os();
    let called_as = args.next().unwrap_or_default();
    let is_called = |name: &str| Path::new(&called_as).file_name().is_some_and(|called| called == name);
    if is_called(PRE_RECEIVE) {
        return match rejection(io::stdin().lock()) {
            Ok(None) => ExitCode::SUCCESS,
            Ok(Some(reason)) => failed(&reason),
            Err(error) => failed(&format!("the push cannot be taken now: {error}")),
        };
    }
    let (Some(socket), Some(session)) = (std::env::var_os(SOCKET), std::env::var_os(SESSION)) else {
        eprintln!("this is run by git, for git-svc");
        return ExitCode::from(2);
    };
    let socket = Path::new(&socket);
    if is_called(PACK_OBJECTS) {
        return pack_objects::main(socket, session.as_bytes(), &args.collect::<Vec<_>>());
    }
    match relay(socket, &session) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&format!("the push cannot be taken now: {error}")),
    }
}

/// Says why, which git passes on to the client.
fn failed(reason: &str) -> ExitCode {
    eprintln!("{reason}");
    ExitCode::FAILURE
}

/// Why a push is refused as a whole. git says one line for each ref.
fn rejection(refs: impl BufRead) -> io::Result<Option<String>> {
    let limit: Option<usize> = std::env::var_os(MAX_REFS).and_then(|limit| limit.to_str()?.parse().ok());
    let mut count = 0_usize;
    for line in refs.split(b'\n') {
        line?;
        count += 1;
    }
    if let Some(limit) = limit.filter(|limit| count > *limit) {
        return Ok(Some(format!("a push may change {limit} refs at most")));
    }
    let Some(quarantine) = std::env::var_os(QUARANTINE) else { return Ok(None) };
    let is_deep = has_deep_chains(Path::new(&quarantine))?;
    Ok(is_deep.then(|| "the pack has delta chains that are too deep".to_owned()))
}

/// Passes git's words to git-svc and its answers back, until git-svc has said all.
fn relay(socket: &Path, session: &OsStr) -> io::Result<()> {
    let mut to = UnixStream::connect(socket)?;
    let mut from = to.try_clone()?;
    let session = session.as_bytes();
    to.write_all(format!("{:04x}", session.len() + 4).as_bytes())?;
    to.write_all(session)?;
    // Ends with git's side of the pipe, or with the process: nobody waits for it.
    std::thread::spawn(move || {
        // What goes wrong here shows on the other side, where it is reported.
        drop(copy_unbuffered(&mut io::stdin().lock(), &mut to));
        drop(to.shutdown(Shutdown::Write));
    });
    copy_unbuffered(&mut from, &mut io::stdout().lock())
}

/// Copies as it comes: each side waits for the other's words, so nothing may linger in a buffer.
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
