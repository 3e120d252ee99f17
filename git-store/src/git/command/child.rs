//! A running git process: its limits, pipes and end.

use std::{os::unix::process::ExitStatusExt as _, process::ExitStatus, time::Duration};

use rustix::process::{Pid, Resource, Rlimit, Signal, prlimit};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    process::{Child, ChildStderr, ChildStdin, ChildStdout},
};

use super::{
    measure::RunningProcess,
    reaper::{self, Reaper},
};
use crate::types::error::GitError;

/// Bytes kept of a process's standard error; the rest is discarded.
pub const MAX_STDERR_BYTES: u64 = 16 << 10;
/// Bytes kept of a process's standard output by [`GitChild::finish`]; the rest is discarded.
const MAX_STDOUT_BYTES: u64 = 1 << 20;
/// Seconds from the signal at the CPU limit until a process that ignores it is killed.
const CPU_GRACE_SECONDS: u64 = 5;

/// A running git process. Dropping it sends TERM to the process group, and KILL within two seconds.
#[derive(Debug)]
pub struct GitChild {
    /// Take and drop it to signal the end of input.
    pub stdin: Option<ChildStdin>,
    /// Standard output of the process.
    pub stdout: Option<ChildStdout>,
    /// A process that writes more than the pipe holds blocks until this is read.
    pub stderr: Option<ChildStderr>,
    pub(super) name: &'static str,
    pub(super) running: RunningProcess,
    /// `None` once the process has ended.
    pub(super) child: Option<Child>,
    pub(super) reaper: Reaper,
}

impl GitChild {
    /// The git subcommand.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the process id while the process runs; its process group has the same id.
    pub fn id(&self) -> Option<Pid> {
        self.child.as_ref().and_then(reaper::pid)
    }

    /// Waits for the process to end. Dropping this future does not stop the process.
    ///
    /// # Errors
    /// `Internal` if the process was waited for before.
    pub async fn wait(&mut self) -> Result<ExitStatus, GitError> {
        let Some(child) = &mut self.child else {
            return Err(GitError::Internal(format!("waited twice for git {}", self.name)));
        };
        let status = child.wait().await.map_err(GitError::io(format!("waiting for git {}", self.name)))?;
        self.child = None;
        self.running.ended(status);
        if status.signal() == Some(Signal::XCPU.as_raw()) {
            metrics::counter!("ferrite_git_processes_limited_total", "command" => self.name).increment(1);
            tracing::warn!(name = self.name, "a git process reached its CPU limit");
        }
        Ok(status)
    }

    /// Stops the process and its group, and waits until the process is reaped.
    pub async fn end(mut self) {
        if let Some(child) = self.child.take() {
            // The channel carries no value: the reaper just drops its sender.
            drop(self.reaper.end(child).await);
        }
    }

    /// Writes `input`, waits up to `deadline`, and returns up to 1 MiB of the output. For short
    /// commands.
    ///
    /// # Errors
    /// [`GitError::Command`] unless the exit status is zero; [`GitError::TimedOut`] once the
    /// process was stopped.
    pub async fn finish(mut self, input: &[u8], deadline: Duration) -> Result<Vec<u8>, GitError> {
        let ended = tokio::time::timeout(deadline, self.exchange(input)).await;
        ended.map_err(|_| GitError::TimedOut { what: self.name })?
    }

    /// Writes `input`, waits for the process to end, and returns up to 1 MiB of its output; `None`
    /// if `stop` completed first and the process was stopped.
    pub async fn output_unless<S>(
        mut self,
        input: &[u8],
        stop: S,
        deadline: Duration,
    ) -> Result<Option<Vec<u8>>, GitError>
    where
        S: Future<Output = ()>,
    {
        let what = self.name;
        let outcome = tokio::select! {
            outcome = self.exchange(input) => return outcome.map(Some),
            () = stop => Ok(None),
            () = tokio::time::sleep(deadline) => Err(GitError::TimedOut { what }),
        };
        self.end().await;
        outcome
    }

    async fn exchange(&mut self, input: &[u8]) -> Result<Vec<u8>, GitError> {
        let name = self.name;
        let (stdin, stdout, stderr) = (self.stdin.take(), self.stdout.take(), self.stderr.take());
        let ((), output, errors) = tokio::join!(
            feed(stdin, input),
            read_limited(stdout, MAX_STDOUT_BYTES),
            read_limited(stderr, MAX_STDERR_BYTES)
        );
        let status = self.wait().await?;
        if !status.success() {
            // Some commands, such as `fsck`, report problems on standard output.
            let message = if errors.is_empty() { &output } else { &errors };
            let stderr = String::from_utf8_lossy(message).trim_end().to_owned();
            return Err(GitError::Command { command: name, status: status.to_string(), stderr });
        }
        Ok(output)
    }
}

impl Drop for GitChild {
    fn drop(&mut self) {
        if let Some(child) = self.child.take() {
            drop(self.reaper.end(child));
        }
    }
}

/// Writes all input of a process and closes it.
pub async fn feed(stdin: Option<ChildStdin>, input: &[u8]) {
    if let Some(mut stdin) = stdin {
        // A process that fails early closes its input; its exit status shows the cause.
        drop(stdin.write_all(input).await);
    }
}

/// Reads to the end of the stream and returns the first `limit` bytes.
pub async fn read_limited<R: tokio::io::AsyncRead + Unpin>(from: Option<R>, limit: u64) -> Vec<u8> {
    let mut kept = Vec::new();
    if let Some(mut from) = from {
        // A read error ends the text; the exit status shows whether the process failed.
        drop((&mut from).take(limit).read_to_end(&mut kept).await);
        drop(tokio::io::copy(&mut from, &mut tokio::io::sink()).await);
    }
    kept
}

/// Limits address space and CPU time of a process; 0 for no limit.
pub(super) fn set_limits(child: &Child, memory_bytes: u64, cpu: Duration) {
    let Some(pid) = reaper::pid(child) else { return };
    let limit = |resource, value: u64, grace: u64| {
        if value > 0 {
            let limit = Rlimit { current: Some(value), maximum: Some(value.saturating_add(grace)) };
            // Fails if the process has ended, or inherited a lower limit.
            let _ = prlimit(Some(pid), resource, limit);
        }
    };
    limit(Resource::As, memory_bytes, 0);
    // The soft limit sends a signal, the hard limit kills.
    limit(Resource::Cpu, cpu.as_secs(), CPU_GRACE_SECONDS);
}

/// Limits the memory that a process allocates. Unlike in its address space, mapped files do not
/// count.
pub(super) fn limit_allocations(child: &Child, bytes: u64) {
    if let Some(pid) = reaper::pid(child) {
        // Fails if the process has ended.
        let _ = prlimit(Some(pid), Resource::Data, Rlimit { current: Some(bytes), maximum: Some(bytes) });
    }
}
