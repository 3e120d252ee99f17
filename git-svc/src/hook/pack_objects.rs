//! The hook of fetches: git calls it instead of `git pack-objects`, with the same words, and reads the pack from it.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Read as _, Write as _},
    os::{
        fd::AsFd as _,
        unix::{ffi::OsStrExt as _, net::UnixStream, process::ExitStatusExt as _},
    },
    path::Path,
    process::{Command, ExitCode, Stdio},
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, Signal, kill_process},
};

use crate::{
    packs::words::{Answer, MAX_ARG, MAX_ARGS, MAX_INPUT, Summary},
    pktline::{MAX_DATA, Packet},
};

/// How long to wait for a file to grow.
const PAUSE: Duration = Duration::from_millis(20);
/// Bytes copied at once.
const PIECE: usize = 1 << 20;
/// Bytes that wait for git.
const PIPE: usize = 1 << 20;
/// How often to look whether git is waited for, and how many times in a row it must not be.
const LOOK: Duration = Duration::from_millis(500);
const LOOKS: usize = 4;

/// Gives git a pack: makes it, or copies one that git-svc has.
pub(super) fn main(socket: &Path, session: &[u8], args: &[OsString]) -> ExitCode {
    match talk(socket, session, args) {
        Ok(code) => code,
        Err(error) => {
            // git passes it on to the client. Nobody may be listening.
            drop(writeln!(io::stderr(), "Ferrite: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// The connection to git-svc, and what has come of its next word.
struct Service {
    stream: UnixStream,
    heard: Vec<u8>,
}

fn talk(socket: &Path, session: &[u8], args: &[OsString]) -> io::Result<ExitCode> {
    let mut input = Vec::new();
    io::stdin().lock().take(MAX_INPUT as u64 + 1).read_to_end(&mut input)?;
    let stream = UnixStream::connect(socket).map_err(|_| gone())?;
    let mut service = Service { stream, heard: Vec::new() };
    service.ask(session, args, &input)?;
    loop {
        match service.answer()?.ok_or_else(gone)? {
            Answer::Send => service.send(&input)?,
            Answer::Run => return run(service.stream, args, &input),
            Answer::Follow(path) => return service.follow(&path).map(|()| ExitCode::SUCCESS),
            Answer::Failed(reason) => return Err(io::Error::other(reason)),
            Answer::Text(_) | Answer::Done(_) => return Err(io::Error::other("git-svc said something out of place")),
        }
    }
}

fn gone() -> io::Error {
    io::Error::other("the service is not there; try again in a moment")
}

impl Service {
    /// Says what git wants.
    fn ask(&mut self, session: &[u8], args: &[OsString], input: &[u8]) -> io::Result<()> {
        let mut bytes = Vec::new();
        Packet::Data(session.to_vec()).encode(&mut bytes)?;
        let can_tell =
            args.len() <= MAX_ARGS && args.iter().all(|arg| arg.len() <= MAX_ARG) && input.len() <= MAX_INPUT;
        for arg in args.iter().filter(|_| can_tell) {
            Packet::Data(arg.as_bytes().to_vec()).encode(&mut bytes)?;
        }
        Packet::Flush.encode(&mut bytes)?;
        let summary = if can_tell { Summary::of(input).packet() } else { Packet::text("unknown") };
        summary.encode(&mut bytes)?;
        self.stream.write_all(&bytes).map_err(|_| gone())
    }

    fn send(&mut self, input: &[u8]) -> io::Result<()> {
        for piece in input.chunks(MAX_DATA) {
            let mut bytes = Vec::with_capacity(piece.len() + 4);
            Packet::Data(piece.to_vec()).encode(&mut bytes)?;
            self.stream.write_all(&bytes).map_err(|_| gone())?;
        }
        self.stream.write_all(b"0000").map_err(|_| gone())
    }

    /// The next word; `None` when none came in time.
    fn answer(&mut self) -> io::Result<Option<Answer>> {
        loop {
            if let Some((packet, length)) = Packet::decode(&self.heard)? {
                self.heard.drain(..length);
                return Answer::parse(&packet)
                    .map(Some)
                    .ok_or_else(|| io::Error::other("git-svc said something unknown"));
            }
            let mut piece = [0; 4096];
            match self.stream.read(&mut piece) {
                Ok(0) => return Err(gone()),
                Ok(count) => self.heard.extend_from_slice(&piece[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Err(gone()),
            }
        }
    }

    /// Copies a file to git while it grows, and tells git's client what it is to hear.
    fn follow(&mut self, path: &Path) -> io::Result<()> {
        let file = File::open(path)?;
        let out = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        // It is only slower without.
        let _ = rustix::pipe::fcntl_setpipe_size(&out, PIPE);
        self.stream.set_read_timeout(Some(PAUSE))?;
        let (mut copied, mut size) = (0, None);
        loop {
            copied += copy(&file, &out)?;
            match size {
                Some(size) if copied == size => return Ok(()),
                Some(_) => return Err(io::Error::other("the pack is not whole; try again")),
                None => {}
            }
            match self.answer()? {
                None => {}
                Some(Answer::Text(text)) => io::stderr().write_all(&text)?,
                Some(Answer::Done(whole)) => size = Some(whole),
                Some(Answer::Failed(reason)) => return Err(io::Error::other(reason)),
                Some(_) => return Err(io::Error::other("git-svc said something out of place")),
            }
        }
    }
}

/// Copies what there is, in the kernel where it can: what was written to the file does not change any more.
fn copy(file: &File, out: &File) -> io::Result<u64> {
    let mut copied = 0;
    loop {
        match rustix::fs::sendfile(out, file, None, PIECE) {
            Ok(0) => return Ok(copied),
            Ok(count) => copied += count as u64,
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
                return io::copy(&mut &*file, &mut &*out).map(|count| copied + count);
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Makes the pack. The connection says that this goes on, and that it must not when git-svc is gone.
fn run(service: UnixStream, args: &[OsString], input: &[u8]) -> io::Result<ExitCode> {
    let (program, args) = args.split_first().ok_or_else(|| io::Error::other("this is run by git, for git-svc"))?;
    if program != "git" {
        return Err(io::Error::other("this is run by git, for git-svc"));
    }
    let mut child = Command::new(program).args(args).stdin(Stdio::piped()).spawn()?;
    let leader = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let mut watched = service.try_clone()?;
    // Both end with this process.
    std::thread::spawn(move || {
        while matches!(watched.read(&mut [0; 64]), Ok(1..)) {}
        // The process is only waited for at the end of this one.
        let _ = leader.map(|leader| kill_process(leader, Signal::TERM));
    });
    std::thread::spawn(move || tell_when_slow(service));
    if let Some(mut stdin) = child.stdin.take() {
        // A process that failed early closes its input; its status says why.
        let fed = stdin.write_all(input).and_then(|()| io::copy(&mut io::stdin().lock(), &mut stdin));
        drop(fed);
    }
    let status = child.wait()?;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    Ok(ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
}

/// Tells git-svc once when git has not taken for long what there is for it: its client is slower than the making of the pack.
fn tell_when_slow(mut service: UnixStream) {
    let out = io::stdout();
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut full = 0;
    while full < LOOKS {
        std::thread::sleep(LOOK);
        let mut ends = [PollFd::new(&out, PollFlags::OUT)];
        match poll(&mut ends, Some(&now)) {
            Ok(0) => full += 1,
            Ok(_) => full = 0,
            Err(_) => return,
        }
    }
    // Without it the turn is kept, which is safe.
    drop(service.write_all(b"s"));
}
