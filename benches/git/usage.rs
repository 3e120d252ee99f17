//! CPU time of a process with everything it started, and private memory.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Unit in which Linux counts CPU time (`USER_HZ`).
const CLOCK_TICK: Duration = Duration::from_millis(10);
/// Time between two reads of a process.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// A server is idle when it used no CPU for this long.
const IDLE_AFTER: Duration = Duration::from_millis(80);
/// As [`IDLE_AFTER`] while the server has more processes than at its start, which may wait for the disk or for input.
const IDLE_AFTER_WITH_CHILDREN: Duration = Duration::from_secs(2);
/// The measurement goes on after this time even if the server is not idle.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(60);

/// One process, as `/proc/<id>/stat` shows it.
#[derive(Clone, Debug)]
struct Stat {
    parent: u32,
    /// CPU time of the process, and of children that it waited for.
    ticks: [u32; 2],
}

fn stat(id: &str) -> Option<Stat> {
    let text = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The second field is the name in parentheses, which may hold anything.
    let (_, after) = text.rsplit_once(')')?;
    let fields: Vec<_> = after.split_whitespace().collect();
    let number = |field: usize| fields.get(field).and_then(|text| text.parse::<u32>().ok());
    // User and system time.
    let ticks = [number(11)? + number(12)?, number(13)? + number(14)?];
    Some(Stat { parent: number(1)?, ticks })
}

/// Returns a process and all processes below it.
fn tree(root: u32) -> Vec<(u32, Stat)> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    let mut all = HashMap::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(text) = name.to_str().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit())) else { continue };
        if let (Ok(id), Some(stat)) = (text.parse::<u32>(), stat(text)) {
            children.entry(stat.parent).or_default().push(id);
            all.insert(id, stat);
        }
    }
    let (mut found, mut waiting) = (Vec::new(), vec![root]);
    while let Some(id) = waiting.pop() {
        waiting.extend(children.get(&id).into_iter().flatten());
        if let Some(stat) = all.remove(&id) {
            found.push((id, stat));
        }
    }
    found
}

/// Returns the child of `parent` whose first argument is `argument`.
pub(crate) fn child_of(parent: u32, argument: &str) -> Option<u32> {
    tree(parent).into_iter().map(|(id, _)| id).find(|id| {
        let command = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        command.split(|byte| *byte == 0).nth(1) == Some(argument.as_bytes())
    })
}

/// Returns the CPU time of the children that this process has waited for.
pub(crate) fn own_children() -> Duration {
    CLOCK_TICK * stat("self").map_or(0, |stat| stat.ticks[1])
}

/// The processes of a server: the first one, and all that it had when it was ready.
#[derive(Clone, Debug)]
pub(crate) struct Processes {
    root: u32,
    own: Vec<u32>,
}

impl Processes {
    /// The processes of a server that has just become ready.
    pub(crate) fn of(root: u32) -> Self {
        Self { root, own: tree(root).into_iter().map(|(id, _)| id).collect() }
    }

    /// The first process.
    pub(crate) fn root(&self) -> u32 {
        self.root
    }

    /// Returns the CPU time of each process, and of the children that it waited for, by name.
    pub(crate) fn each(&self) -> Vec<(String, Duration)> {
        let mut all = Vec::new();
        for id in &self.own {
            let name = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
            let name = name.split(|byte| *byte == 0).nth(1).map(|name| String::from_utf8_lossy(name).into_owned());
            let (name, ticks) = (name.unwrap_or_default(), stat(&id.to_string()).map_or([0; 2], |stat| stat.ticks));
            all.push((format!("{name}'s children"), CLOCK_TICK * ticks[1]));
            all.push((name, CLOCK_TICK * ticks[0]));
        }
        all
    }

    /// Waits until the server is idle and returns its CPU time so far.
    pub(crate) async fn settled(&self) -> Duration {
        let (begin, mut since) = (Instant::now(), Instant::now());
        let mut last = (Duration::ZERO, Vec::new());
        loop {
            let all = tree(self.root);
            let others = all.iter().map(|(id, _)| *id).filter(|id| !self.own.contains(id)).collect();
            let now = (CLOCK_TICK * all.iter().flat_map(|(_, stat)| stat.ticks).sum(), others);
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

/// Private memory of a process, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Private {
    /// Memory that no other process shares.
    pub(crate) all: u64,
    /// The part that is not backed by files. Packs that libgit2 has mapped are not in here.
    pub(crate) dirty: u64,
}

impl Private {
    fn max(self, other: Self) -> Self {
        Self { all: self.all.max(other.all), dirty: self.dirty.max(other.dirty) }
    }
}

/// Returns the private memory of a process, or `None` if it has ended.
pub(crate) fn private(id: u32) -> Option<Private> {
    let maps = memory_maps(id)?;
    let dirty = bytes_of(&maps, "Private_Dirty:");
    Some(Private { all: dirty + bytes_of(&maps, "Private_Clean:"), dirty })
}

/// Returns the memory of a process and all below it, in bytes: the proportional set size, so that shared pages count once.
pub(crate) fn proportional(root: u32) -> u64 {
    tree(root).iter().filter_map(|(id, _)| Some(bytes_of(&memory_maps(*id)?, "Pss:"))).sum()
}

fn memory_maps(id: u32) -> Option<String> {
    std::fs::read_to_string(format!("/proc/{id}/smaps_rollup")).ok()
}

fn bytes_of(maps: &str, name: &str) -> u64 {
    let line = maps.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) << 10
}

/// The largest values that a [`Sampler`] has read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Peak {
    /// Private memory of the one process.
    pub(crate) own: Private,
    /// Memory of the whole tree ([`proportional`]), in bytes.
    pub(crate) tree: u64,
}

/// Reads memory in a thread until [`Sampler::peak`] is called.
pub(crate) struct Sampler {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Peak>,
}

impl Sampler {
    /// Reads the memory of `process`, and less often that of all processes below `root`.
    pub(crate) fn start(process: u32, root: u32) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let is_stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let (mut peak, mut round) = (Peak::default(), 0_u32);
            while !is_stopped.load(Ordering::Relaxed) {
                peak.own = peak.own.max(private(process).unwrap_or_default());
                if round.is_multiple_of(10) {
                    peak.tree = peak.tree.max(proportional(root));
                }
                round += 1;
                std::thread::sleep(POLL_INTERVAL);
            }
            peak
        });
        Self { stop, thread }
    }

    /// Ends the thread and returns the largest values.
    pub(crate) fn peak(self) -> Peak {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_default()
    }
}
