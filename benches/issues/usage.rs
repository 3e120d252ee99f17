//! CPU time of processes.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Unit in which Linux counts CPU time (`USER_HZ`).
const CLOCK_TICK: Duration = Duration::from_millis(10);
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Processes are idle when they used no CPU for this long.
const IDLE_AFTER: Duration = Duration::from_millis(300);
/// The measurement goes on after this time even if they are not idle.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(20);

/// The process ids that are measured, with a name for each.
pub(crate) type Processes = BTreeMap<u32, String>;

/// User and system time of a process so far, and its parent; `None` if it has ended.
fn stat(id: u32) -> Option<(u32, Duration)> {
    let text = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The second field is the name in parentheses, which may hold anything.
    let (_, after) = text.rsplit_once(')')?;
    let number = |field: usize| after.split_whitespace().nth(field)?.parse::<u32>().ok();
    Some((number(1)?, CLOCK_TICK * (number(11)? + number(12)?)))
}

/// Returns these processes and those directly below them, named by their first argument.
pub(crate) fn with_children(ids: &[u32]) -> Processes {
    let name = |id: u32| {
        let command = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        let argument = command.split(|byte| *byte == 0).nth(1).unwrap_or_default();
        String::from_utf8_lossy(argument).into_owned()
    };
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let all = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_measured = |id: &u32| ids.contains(id) || stat(*id).is_some_and(|(parent, _)| ids.contains(&parent));
    all.filter(is_measured).map(|id| (id, name(id))).collect()
}

fn read(processes: &Processes) -> BTreeMap<u32, Duration> {
    processes.keys().filter_map(|id| Some((*id, stat(*id)?.1))).collect()
}

/// Waits until the processes are idle and returns their CPU times so far.
pub(crate) async fn settled(processes: &Processes) -> BTreeMap<u32, Duration> {
    let (begin, mut since, mut last) = (Instant::now(), Instant::now(), read(processes));
    while since.elapsed() < IDLE_AFTER && begin.elapsed() < SETTLE_TIMEOUT {
        tokio::time::sleep(POLL_INTERVAL).await;
        let now = read(processes);
        if now != last {
            (since, last) = (Instant::now(), now);
        }
    }
    last
}
