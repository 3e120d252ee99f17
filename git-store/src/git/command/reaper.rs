//! Stops processes whose [`super::GitChild`] was dropped: sends TERM to the process group, KILL
//! once its leader has ended or after two seconds, then reaps them.
//!
//! This is a thread, not a task, so it works even while a runtime shuts down.

use std::{
    sync::mpsc,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::{process::Child, sync::oneshot};

use crate::types::error::GitError;

const KILL_DELAY: Duration = Duration::from_secs(2);

const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A handle to the reaper thread, which ends after the last handle and the last process.
#[derive(Clone, Debug)]
pub(super) struct Reaper {
    ending: mpsc::Sender<Ending>,
}

impl Reaper {
    pub(super) fn start() -> Result<Self, GitError> {
        let (ending, children) = mpsc::channel();
        let thread = std::thread::Builder::new().name("git-reaper".to_owned());
        thread.spawn(move || reap(&children)).map_err(GitError::io("starting the reaper"))?;
        Ok(Self { ending })
    }

    /// Stops `child` and its process group. The receiver errors once the process is reaped.
    pub(super) fn end(&self, child: Child) -> oneshot::Receiver<()> {
        signal(&child, Signal::TERM);
        let (ended, has_ended) = oneshot::channel();
        let ending = Ending { child, kill_at: Instant::now() + KILL_DELAY, _ended: ended };
        if let Err(mpsc::SendError(ending)) = self.ending.send(ending) {
            // Unreachable while a handle exists. Dropping the child kills the leader as well.
            signal(&ending.child, Signal::KILL);
        }
        has_ended
    }
}

struct Ending {
    child: Child,
    kill_at: Instant,
    /// Dropping it completes the receiver of [`Reaper::end`].
    _ended: oneshot::Sender<()>,
}

fn reap(children: &mpsc::Receiver<Ending>) {
    let mut ending: Vec<Ending> = Vec::new();
    let mut open = true;
    while open || !ending.is_empty() {
        let next = if ending.is_empty() {
            children.recv().map_err(|_| mpsc::RecvTimeoutError::Disconnected)
        } else if open {
            children.recv_timeout(POLL_INTERVAL)
        } else {
            std::thread::sleep(POLL_INTERVAL);
            Err(mpsc::RecvTimeoutError::Timeout)
        };
        match next {
            Ok(child) => ending.push(child),
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => open = false,
        }
        ending.retain_mut(|process| !process.has_ended());
    }
}

impl Ending {
    /// Kills the group once the leader has exited or at `kill_at`. Returns whether it is reaped.
    fn has_ended(&mut self) -> bool {
        let Some(leader) = pid(&self.child) else { return true };
        // `NOWAIT` does not reap the leader, so its id is not reused before the signal below.
        let status = waitid(WaitId::Pid(leader), WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT);
        let is_over = !matches!(status, Ok(None));
        if !is_over && Instant::now() < self.kill_at {
            return false;
        }
        signal(&self.child, Signal::KILL);
        matches!(self.child.try_wait(), Ok(Some(_)) | Err(_))
    }
}

/// Returns the id of a process that is not reaped yet.
pub(super) fn pid(child: &Child) -> Option<Pid> {
    Pid::from_raw(i32::try_from(child.id()?).ok()?)
}

fn signal(child: &Child, signal: Signal) {
    if let Some(leader) = pid(child) {
        // Fails only if the whole group has ended.
        let _ = kill_process_group(leader, signal);
    }
}
