//! Child processes, with their output collected as lines.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// Lines from processes, in order of arrival.
#[derive(Clone, Default)]
pub(crate) struct Lines(Arc<(Mutex<Collected>, Condvar)>);

#[derive(Default)]
struct Collected {
    lines: Vec<String>,
    /// Pipes that a process still holds open, or that are not fully read yet.
    open_pipes: usize,
}

impl Lines {
    fn collect(&self, source: impl Read + Send + 'static) {
        let own = self.clone();
        own.0.0.lock().unwrap().open_pipes += 1;
        std::thread::spawn(move || {
            for line in BufReader::new(source).lines() {
                let Ok(line) = line else { break };
                own.0.0.lock().unwrap().lines.push(line);
                own.0.1.notify_all();
            }
            own.0.0.lock().unwrap().open_pipes -= 1;
            own.0.1.notify_all();
        });
    }

    pub(crate) fn all(&self) -> Vec<String> {
        self.0.0.lock().unwrap().lines.clone()
    }

    /// All lines, once every process that could write has ended: a process ends before its last
    /// lines are read.
    #[track_caller]
    pub(crate) fn all_after_end(&self, timeout: Duration) -> Vec<String> {
        let collected = self.0.0.lock().unwrap();
        let (collected, wait) =
            self.0.1.wait_timeout_while(collected, timeout, |collected| collected.open_pipes > 0).unwrap();
        assert!(!wait.timed_out(), "the output did not end: {:#?}", collected.lines);
        collected.lines.clone()
    }

    /// Lines of level ERROR, and panics.
    pub(crate) fn errors(&self) -> Vec<String> {
        let is_error = |line: &String| line.contains("\"level\":\"ERROR\"") || line.contains("panicked at");
        self.all().into_iter().filter(is_error).collect()
    }

    /// Waits for a line that `wanted` accepts; `None` after `timeout`.
    pub(crate) fn wait_for(&self, timeout: Duration, wanted: impl Fn(&str) -> bool) -> Option<String> {
        let deadline = Instant::now() + timeout;
        let mut collected = self.0.0.lock().unwrap();
        loop {
            if let Some(line) = collected.lines.iter().find(|line| wanted(line)) {
                return Some(line.clone());
            }
            let left = deadline.checked_duration_since(Instant::now())?;
            collected = self.0.1.wait_timeout(collected, left).unwrap().0;
        }
    }
}

/// A running process. Dropping it closes its standard input, and kills it if it does not end then.
pub(crate) struct Process {
    child: Child,
    stdin: Option<ChildStdin>,
    pub(crate) out: Lines,
}

impl Process {
    /// Starts `command`. Lines of its standard error go to `log`.
    pub(crate) fn start(command: &mut Command, log: &Lines) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let out = Lines::default();
        out.collect(child.stdout.take().unwrap());
        log.collect(child.stderr.take().unwrap());
        Self { stdin: child.stdin.take(), child, out }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub(crate) fn tell(&mut self, line: &str) {
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        send(self.id(), signal);
    }

    /// Waits for the process to end; `None` after `timeout`.
    pub(crate) fn ended_within(&mut self, timeout: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return Some(status);
            }
            if Instant::now() > deadline {
                return None;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.stdin.take());
        if self.ended_within(Duration::from_secs(15)).is_none() {
            self.kill();
        }
    }
}

pub(crate) fn send(id: u32, signal: rustix::process::Signal) {
    let id = rustix::process::Pid::from_raw(id.try_into().unwrap()).unwrap();
    rustix::process::kill_process(id, signal).unwrap();
}

/// Id of the child process of `parent` with `argument` as its first argument.
pub(crate) fn child_of(parent: u32, argument: &str) -> Option<u32> {
    std::fs::read_dir("/proc").unwrap().flatten().find_map(|entry| {
        let id: u32 = entry.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        // The second field is the name in parentheses, which can contain anything.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        let (state, owner) = (fields.next()?, fields.next()?);
        let command = std::fs::read(entry.path().join("cmdline")).ok()?;
        let first = command.split(|byte| *byte == 0).nth(1)?;
        (state != "Z" && owner == parent.to_string() && first == argument.as_bytes()).then_some(id)
    })
}
