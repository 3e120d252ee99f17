//! Measures the CPU time of a git process and its descendants in `/proc`. The kernel's `RLIMIT_CPU`
//! counts each process separately and cannot grow with the bytes received.

use std::{fs, time::Duration};

use rustix::process::Pid;
use tokio::time::sleep;

use super::{GitChild, reaper};
use crate::types::{error::GitError, limits::CpuAllowance};

/// Pause before the first check; it doubles up to [`MAX_PAUSE`], so that short processes are checked
/// too.
const FIRST_PAUSE: Duration = Duration::from_millis(25);
const MAX_PAUSE: Duration = Duration::from_millis(500);
/// Ticks per second in `/proc` (`USER_HZ`), the same on all processors.
const TICKS_PER_SECOND: u32 = 100;
/// Depth of descendants: `receive-pack` and `fetch` run programs that run others.
const MAX_LEVELS: usize = 4;
/// Fields of `/proc/<id>/stat` after the name: user and kernel time, own and of reaped children.
const TIMES: std::ops::Range<usize> = 11..15;

/// Watches the CPU time of a process and its descendants.
#[derive(Clone, Copy, Debug)]
pub struct CpuWatch {
    leader: Pid,
    allowance: CpuAllowance,
}

/// Returns whether `/proc` lists the children of a process (`CONFIG_PROC_CHILDREN`). Without it,
/// their time counts only once they have ended.
pub fn sees_children() -> bool {
    fs::exists(format!("/proc/{0}/task/{0}/children", std::process::id())).unwrap_or_default()
}

impl GitChild {
    /// Returns a watch with the limit `allowance`; `None` if the process has ended.
    pub fn cpu_watch(&self, allowance: CpuAllowance) -> Option<CpuWatch> {
        let leader = self.child.as_ref().and_then(reaper::pid)?;
        Some(CpuWatch { leader, allowance })
    }
}

impl CpuWatch {
    /// Completes once the processes exceed the CPU time for the bytes that `received` returns.
    pub async fn spent(&self, received: impl Fn() -> u64) -> GitError {
        let mut pause = FIRST_PAUSE;
        loop {
            sleep(pause).await;
            pause = MAX_PAUSE.min(pause * 2);
            let limit = self.allowance.limit(received());
            if cpu_time(&self.leader.to_string(), MAX_LEVELS) > limit {
                return GitError::CpuTime { seconds: limit.as_secs() };
            }
        }
    }
}

/// Returns the CPU time of a process, of children it has waited for, and of running descendants.
fn cpu_time(id: &str, levels: usize) -> Duration {
    // A process that cannot be read has ended, and its parent counts its time.
    let own = fs::read_to_string(format!("/proc/{id}/stat")).ok().and_then(|stat| time_in(&stat)).unwrap_or_default();
    let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
    let below = children.split_ascii_whitespace().filter(|_| levels > 0).map(|child| cpu_time(child, levels - 1));
    below.fold(own, Duration::saturating_add)
}

fn time_in(stat: &str) -> Option<Duration> {
    // The name is in parentheses and may contain any characters.
    let (_, fields) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    let ticks: Vec<u64> = fields.get(TIMES)?.iter().map(|field| field.parse().unwrap_or_default()).collect();
    let ticks: u64 = ticks.iter().sum();
    Some(Duration::from_secs(ticks) / TICKS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn times_are_found_behind_any_name() {
        let stat = "7 (a) b (c)) S 1 7 7 0 -1 4194560 100 0 0 0 150 50 20 30 20 0 1 0 5 6 7";
        assert_eq!(time_in(stat), Some(Duration::from_millis(2500)));
        assert_eq!((time_in("7 (a) S 1"), time_in("")), (None, None));
    }

    #[test]
    fn processes_below_count_while_they_run_and_after() {
        // The shell waits for one loop and stays the parent of another.
        let script = "sh -c 'n=0; while [ $n -lt 200000 ]; do n=$((n+1)); done'; \
                      sh -c 'n=0; while [ $n -lt 200000 ]; do n=$((n+1)); done; echo done; exec sleep 60' & wait";
        let mut child = Command::new("sh").args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
        let (mut line, stdout) = (String::new(), child.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).unwrap();
        let id = child.id().to_string();
        let (all, leader) = (cpu_time(&id, MAX_LEVELS), cpu_time(&id, 0));
        let below = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
        let sleeping = i32::try_from(below.trim().parse::<u32>().unwrap()).unwrap();
        rustix::process::kill_process(Pid::from_raw(sleeping).unwrap(), rustix::process::Signal::KILL).unwrap();
        child.wait().unwrap();
        assert!(leader > Duration::ZERO, "the loop that has ended: {leader:?}");
        assert!(all > leader, "and the one that runs: {all:?} {leader:?}");
    }
}
