//! What git runs as its `proc-receive` hook: a pipe between git and git-svc, which decides. Not here: any decision.

use std::{
    ffi::OsStr,
    io::{self, Read, Write},
    net::Shutdown,
    os::unix::{ffi::OsStrExt as _, net::UnixStream},
    path::Path,
    process::ExitCode,
};

/// Names the socket of git-svc to the hook.
pub(crate) const SOCKET: &str = "FERRITE_HOOK_SOCKET";
/// Names the push to git-svc.
pub(crate) const SESSION: &str = "FERRITE_HOOK_SESSION";

/// Passes git's words to git-svc and its answers back, until git-svc has said all. Call it first in `main`, when the program's
/// own name is `proc-receive`.
#[must_use]
pub fn main() -> ExitCode {
    let (Some(socket), Some(session)) = (std::env::var_os(SOCKET), std::env::var_os(SESSION)) else {
        eprintln!("proc-receive is run by git, for git-svc");
        return ExitCode::from(2);
    };
    match relay(Path::new(&socket), &session) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("the push cannot be taken now: {error}");
            ExitCode::FAILURE
        }
    }
}

fn relay(socket: &Path, session: &OsStr) -> io::Result<()> {
    let mut to = UnixStream::connect(socket)?;
    let mut from = to.try_clone()?;
    let session = session.as_bytes();
    to.write_all(format!("{:04x}", session.len() + 4).as_bytes())?;
    to.write_all(session)?;
    // Ends with git's side of the pipe, or with the process: nobody waits for it.
    std::thread::spawn(move || {
        // What goes wrong here shows on the other side, where it is reported.
        drop(pass_on(&mut io::stdin().lock(), &mut to));
        drop(to.shutdown(Shutdown::Write));
    });
    pass_on(&mut from, &mut io::stdout().lock())
}

/// Copies as it comes: each side waits for the other's words, so nothing may linger in a buffer.
fn pass_on(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
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
