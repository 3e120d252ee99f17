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
    git::pktline::{MAX_DATA, Packet},
    transfer::fetch::hook_protocol::{HookReply, InputSummary, MAX_ARG, MAX_ARGS, MAX_INPUT},
};

/// How long to wait for a file to grow.
const READ_TIMEOUT: Duration = Duration::from_millis(20);
/// Bytes copied at once.
const COPY_BYTES: usize = 1 << 20;
/// Bytes that wait for git.
const PIPE_BYTES: usize = 1 << 20;
/// How often to look whether git is waited for, and how many times in a row it must not be.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
const MAX_FULL_POLLS: usize = 4;

/// Gives git a pack: makes it, or copies one that git-svc has.
pub(super) fn main(socket: &Path, session: &[u8], args: &[OsString]) -> ExitCode {
    match serve_git(socket, session, args) {
        Ok(code) => code,
        Err(error) => {
            // git passes it on to the client. Nobody may be listening.
            drop(writeln!(io::stderr(), "Ferrite: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// The connection to git-svc, and what has come of its next word.
struct ServiceConnection {
    stream: UnixStream,
    received: Vec<u8>,
}

fn serve_git(socket: &Path, session: &[u8], args: &[OsString]) -> io::Result<ExitCode> {
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
                return Err(io::Error::other("git-svc said something out of place"));
            }
        }
    }
}

fn gone() -> io::Error {
    io::Error::other("the service is not there; try again in a moment")
}

impl ServiceConnection {
    /// Says what git wants.
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

    /// The next word; `None` when none came in time.
    fn read_reply(&mut self) -> io::Result<Option<HookReply>> {
        loop {
            if let Some((packet, length)) = Packet::decode(&self.received)? {
                self.received.drain(..length);
                return HookReply::parse(&packet)
                    .map(Some)
                    .ok_or_else(|| io::Error::other("git-svc said something unknown"));
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

    /// Copies a file to git while it grows, and tells git's client what it is to hear.
    fn follow(&mut self, path: &Path) -> io::Result<()> {
        let file = File::open(path)?;
        let out = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        // It is only slower without.
        let _ = rustix::pipe::fcntl_setpipe_size(&out, PIPE_BYTES);
        self.stream.set_read_timeout(Some(READ_TIMEOUT))?;
        let (mut copied, mut size) = (0, None);
        loop {
            copied += copy(&file, &out)?;
            match size {
                Some(size) if copied == size => return Ok(()),
                Some(_) => return Err(io::Error::other("the pack is not whole; try again")),
                None => {}
            }
            match self.read_reply()? {
                None => {}
                Some(HookReply::Text(text)) => io::stderr().write_all(&text)?,
                Some(HookReply::Done(whole)) => size = Some(whole),
                Some(HookReply::Failed(reason)) => return Err(io::Error::other(reason)),
                Some(_) => return Err(io::Error::other("git-svc said something out of place")),
            }
        }
    }
}

/// Copies what there is, in the kernel where it can: what was written to the file does not change any more.
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
    std::thread::spawn(move || report_slow_reader(service));
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
    // Without it the turn is kept, which is safe.
    drop(service.write_all(b"s"));
}
