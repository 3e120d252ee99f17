//! The hook of fetches. git runs it instead of `git pack-objects`, passes that command as its
//! arguments, and reads the pack from its standard output.

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

use git_store::git::pktline::{MAX_DATA, Packet};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, Signal, kill_process},
};

use crate::transfer::fetch::{
    hook_protocol::{HookReply, InputSummary, MAX_ARG, MAX_ARGS, MAX_INPUT},
    is_refused_filter,
};

/// How long to wait for a reply before reading a growing file again.
const READ_TIMEOUT: Duration = Duration::from_millis(20);
const COPY_BYTES: usize = 1 << 20;
const PIPE_BYTES: usize = 1 << 20;
/// How often to check whether the pipe to git is full.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// If the pipe is full in this many checks in a row, the client is slower than git.
const MAX_FULL_POLLS: usize = 4;

/// Writes a pack to git: makes it, or copies one that git-svc has.
pub(super) fn main(socket: &Path, session: &[u8], args: &[OsString]) -> ExitCode {
    match serve_git(socket, session, args) {
        Ok(code) => code,
        Err(error) => {
            // git passes the message on to the client. A closed stderr is ignored.
            drop(writeln!(io::stderr(), "Ferrite: {error}"));
            // git writes all of its input first. If nobody read the rest, a signal would kill git
            // before it passes the message on.
            drop(io::copy(&mut io::stdin().lock(), &mut io::sink()));
            ExitCode::FAILURE
        }
    }
}

/// Connection to git-svc, with the received bytes of its next reply.
struct ServiceConnection {
    stream: UnixStream,
    received: Vec<u8>,
}

fn serve_git(socket: &Path, session: &[u8], args: &[OsString]) -> io::Result<ExitCode> {
    if args.iter().any(|arg| is_refused_filter(arg.as_bytes())) {
        return Err(io::Error::other("this filter is not supported"));
    }
    let mut input = Vec::new();
    io::stdin().lock().take(MAX_INPUT as u64 + 1).read_to_end(&mut input)?;
    let stream = UnixStream::connect(socket).map_err(|_| gone())?;
    let mut service = ServiceConnection { stream, received: Vec::new() };
    service.send_request(session, args, &input)?;
    loop {
        match service.read_reply()?.ok_or_else(gone)? {
            HookReply::Send => service.send_input(&input)?,
            HookReply::Run => return run(service.stream, args, &input),
            HookReply::Follow(path) => return service.follow(&path).map(|()| ExitCode::SUCCESS),
            HookReply::Failed(reason) => return Err(io::Error::other(reason)),
            HookReply::Text(_) | HookReply::Done(_) => {
                return Err(io::Error::other("unexpected reply from git-svc"));
            }
        }
    }
}

fn gone() -> io::Error {
    io::Error::other("git-svc is not available; try again in a moment")
}

impl ServiceConnection {
    /// Sends the session id, the arguments and a summary of the input. Sends `unknown` instead of
    /// the last two if they exceed the limits.
    fn send_request(&mut self, session: &[u8], args: &[OsString], input: &[u8]) -> io::Result<()> {
        let mut bytes = Vec::new();
        Packet::Data(session.to_vec()).encode(&mut bytes)?;
        let is_describable =
            args.len() <= MAX_ARGS && args.iter().all(|arg| arg.len() <= MAX_ARG) && input.len() <= MAX_INPUT;
        for arg in args.iter().filter(|_| is_describable) {
            Packet::Data(arg.as_bytes().to_vec()).encode(&mut bytes)?;
        }
        Packet::Flush.encode(&mut bytes)?;
        let summary = if is_describable { InputSummary::of(input).packet() } else { Packet::text("unknown") };
        summary.encode(&mut bytes)?;
        self.stream.write_all(&bytes).map_err(|_| gone())
    }

    fn send_input(&mut self, input: &[u8]) -> io::Result<()> {
        for chunk in input.chunks(MAX_DATA) {
            let mut bytes = Vec::with_capacity(chunk.len() + 4);
            Packet::Data(chunk.to_vec()).encode(&mut bytes)?;
            self.stream.write_all(&bytes).map_err(|_| gone())?;
        }
        self.stream.write_all(b"0000").map_err(|_| gone())
    }

    /// Reads the next reply; `None` if none arrived within the read timeout.
    fn read_reply(&mut self) -> io::Result<Option<HookReply>> {
        loop {
            if let Some((packet, length)) = Packet::decode(&self.received)? {
                self.received.drain(..length);
                return HookReply::parse(&packet)
                    .map(Some)
                    .ok_or_else(|| io::Error::other("unknown reply from git-svc"));
            }
            let mut chunk = [0; 4096];
            match self.stream.read(&mut chunk) {
                Ok(0) => return Err(gone()),
                Ok(count) => self.received.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Err(gone()),
            }
        }
    }

    /// Copies a file to git while it grows, and writes progress text for the client to stderr.
    fn follow(&mut self, path: &Path) -> io::Result<()> {
        let file = File::open(path)?;
        let out = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        // Only an optimization, so a failure is ignored.
        let _ = rustix::pipe::fcntl_setpipe_size(&out, PIPE_BYTES);
        self.stream.set_read_timeout(Some(READ_TIMEOUT))?;
        let (mut copied, mut size) = (0, None);
        loop {
            copied += copy(&file, &out)?;
            match size {
                Some(size) if copied == size => return Ok(()),
                Some(_) => return Err(io::Error::other("the pack is incomplete; try again")),
                None => {}
            }
            match self.read_reply()? {
                None => {}
                Some(HookReply::Text(text)) => io::stderr().write_all(&text)?,
                Some(HookReply::Done(whole)) => size = Some(whole),
                Some(HookReply::Failed(reason)) => return Err(io::Error::other(reason)),
                Some(_) => return Err(io::Error::other("unexpected reply from git-svc")),
            }
        }
    }
}

/// Copies the available bytes, in the kernel if possible. Bytes in the file never change once
/// written.
fn copy(file: &File, out: &File) -> io::Result<u64> {
    let mut copied = 0;
    loop {
        match rustix::fs::sendfile(out, file, None, COPY_BYTES) {
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

/// Makes the pack. git-svc holds a permit while the connection is open; if git-svc closes it, the
/// process is killed.
fn run(service: UnixStream, args: &[OsString], input: &[u8]) -> io::Result<ExitCode> {
    let (program, args) = args.split_first().ok_or_else(|| io::Error::other("this program is only run by git"))?;
    if program != "git" {
        return Err(io::Error::other("this program is only run by git"));
    }
    let mut child = Command::new(program).args(args).stdin(Stdio::piped()).spawn()?;
    let leader = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let mut watched = service.try_clone()?;
    // Both threads end with this process.
    std::thread::spawn(move || {
        while matches!(watched.read(&mut [0; 64]), Ok(1..)) {}
        // The process id is still valid, because the child is waited for only at the end of this
        // process.
        let _ = leader.map(|leader| kill_process(leader, Signal::TERM));
    });
    std::thread::spawn(move || report_slow_reader(service));
    if let Some(mut stdin) = child.stdin.take() {
        // A process that failed early has closed its stdin. Its exit status is checked below.
        let fed = stdin.write_all(input).and_then(|()| io::copy(&mut io::stdin().lock(), &mut stdin));
        drop(fed);
    }
    let status = child.wait()?;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    Ok(ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
}

/// Sends git-svc one byte once the pipe to git has been full for [`MAX_FULL_POLLS`] checks in a
/// row, which means that the client is slower than git.
fn report_slow_reader(mut service: UnixStream) {
    let out = io::stdout();
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut full = 0;
    while full < MAX_FULL_POLLS {
        std::thread::sleep(POLL_INTERVAL);
        let mut ends = [PollFd::new(&out, PollFlags::OUT)];
        match poll(&mut ends, Some(&now)) {
            Ok(0) => full += 1,
            Ok(_) => full = 0,
            Err(_) => return,
        }
    }
    // If this fails, git-svc keeps the permit, which is safe.
    drop(service.write_all(b"s"));
}
