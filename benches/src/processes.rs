//! Processes in Linux's `/proc`: process trees and CPU times.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

/// Unit of Linux's CPU times (`USER_HZ`).
const CLOCK_TICK: Duration = Duration::from_millis(10);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// A server counts as idle after this time without CPU use.
const IDLE_AFTER: Duration = Duration::from_millis(80);
/// Like [`IDLE_AFTER`], while the server has more processes than at its start: these may wait for
/// the disk or for input.
const IDLE_AFTER_WITH_CHILDREN: Duration = Duration::from_secs(2);
/// The measurement continues after this time even if the server is not idle.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(60);

/// One process in `/proc/<id>/stat`.
#[derive(Clone, Debug)]
pub(crate) struct Stat {
    parent: u32,
    /// User and system time of the process.
    pub(crate) cpu: Duration,
    /// The same for the children it waited for.
    cpu_of_children: Duration,
}

/// `None` if the process has ended.
pub(crate) fn stat(id: u32) -> Option<Stat> {
    let text = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The second field is the name in parentheses, which can contain anything.
    let (_, after) = text.rsplit_once(')')?;
    let fields: Vec<_> = after.split_whitespace().collect();
    let number = |field: usize| fields.get(field)?.parse::<u32>().ok();
    let (cpu, cpu_of_children) = (number(11)? + number(12)?, number(13)? + number(14)?);
    Some(Stat { parent: number(1)?, cpu: CLOCK_TICK * cpu, cpu_of_children: CLOCK_TICK * cpu_of_children })
}

/// Program and arguments of a process; empty if it has ended.
pub(crate) fn command_line(id: u32) -> Vec<String> {
    let command = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
    command.split(|byte| *byte == 0).map(|part| String::from_utf8_lossy(part).into_owned()).collect()
}

/// First argument of a process: the role, for Ferrite's processes.
fn role(id: u32) -> String {
    command_line(id).into_iter().nth(1).unwrap_or_default()
}

fn all() -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
}

/// A process and all processes below it.
pub(crate) fn tree(root: u32) -> Vec<(u32, Stat)> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    let mut stats = HashMap::new();
    for (id, stat) in all().filter_map(|id| Some((id, stat(id)?))) {
        children.entry(stat.parent).or_default().push(id);
        stats.insert(id, stat);
    }
    let (mut found, mut waiting) = (Vec::new(), vec![root]);
    while let Some(id) = waiting.pop() {
        waiting.extend(children.get(&id).into_iter().flatten());
        if let Some(stat) = stats.remove(&id) {
            found.push((id, stat));
        }
    }
    found
}

/// These processes and their direct children, with their roles.
pub(crate) fn with_children(ids: &[u32]) -> BTreeMap<u32, String> {
    let is_wanted = |id: &u32| ids.contains(id) || stat(*id).is_some_and(|stat| ids.contains(&stat.parent));
    all().filter(is_wanted).map(|id| (id, role(id))).collect()
}

/// The process of a role below `parent`.
pub fn child_of(parent: u32, role_name: &str) -> Option<u32> {
    tree(parent).into_iter().map(|(id, _)| id).find(|id| role(*id) == role_name)
}

/// CPU time of the children that this process has waited for.
pub fn own_children() -> Duration {
    stat(std::process::id()).map_or(Duration::ZERO, |stat| stat.cpu_of_children)
}

/// The processes of a server: the first one, and those it had when it became ready.
#[derive(Clone, Debug)]
pub struct Processes {
    root: u32,
    own: Vec<u32>,
}

impl Processes {
    /// The processes of a server that has just become ready.
    pub fn of(root: u32) -> Self {
        Self { root, own: tree(root).into_iter().map(|(id, _)| id).collect() }
    }

    pub fn root(&self) -> u32 {
        self.root
    }

    /// CPU time of each process and of the children it waited for, by name.
    pub fn each(&self) -> Vec<(String, Duration)> {
        let mut times = Vec::new();
        for id in &self.own {
            let name = role(*id);
            let (own, of_children) =
                stat(*id).map_or((Duration::ZERO, Duration::ZERO), |stat| (stat.cpu, stat.cpu_of_children));
            times.push((format!("{name}'s children"), of_children));
            times.push((name, own));
        }
        times
    }

    /// Waits until the server is idle and returns its CPU time so far.
    pub async fn settled(&self) -> Duration {
        let (begin, mut since) = (Instant::now(), Instant::now());
        let mut last = (Duration::ZERO, Vec::new());
        loop {
            let processes = tree(self.root);
            let others = processes.iter().map(|(id, _)| *id).filter(|id| !self.own.contains(id)).collect();
            let cpu = processes.iter().map(|(_, stat)| stat.cpu + stat.cpu_of_children).sum();
            let now: (Duration, Vec<u32>) = (cpu, others);
            if now != last {
                (since, last) = (Instant::now(), now);
            }
            let quiet = if last.1.is_empty() { IDLE_AFTER } else { IDLE_AFTER_WITH_CHILDREN };
            if since.elapsed() >= quiet || begin.elapsed() >= SETTLE_TIMEOUT {
                return last.0;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}
