//! What processes use: CPU time of a process with everything it started, and private memory.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What the kernel counts CPU time in, on every Linux.
const TICK: Duration = Duration::from_millis(10);
/// Between two looks at a process.
const PAUSE: Duration = Duration::from_millis(20);
/// So long nothing may happen before a server counts as idle.
const QUIET: Duration = Duration::from_millis(80);
/// The same while a process runs that it has not always: one that waits for the disk, or for more work.
const LONG_QUIET: Duration = Duration::from_secs(2);
/// Then it is measured all the same: it may be busy with work of its own.
const PATIENCE: Duration = Duration::from_secs(60);

/// One process, as `/proc/<id>/stat` shows it.
#[derive(Clone, Debug)]
struct Stat {
    parent: u32,
    /// Of itself, and of children that it waited for.
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

/// A process and everything below it.
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

/// The child of `parent` whose first argument is `argument`.
pub(crate) fn child_of(parent: u32, argument: &str) -> Option<u32> {
    tree(parent).into_iter().map(|(id, _)| id).find(|id| {
        let command = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        command.split(|byte| *byte == 0).nth(1) == Some(argument.as_bytes())
    })
}

/// CPU time of the children that this process has waited for.
pub(crate) fn own_children() -> Duration {
    TICK * stat("self").map_or(0, |stat| stat.ticks[1])
}

/// A server: its first process, and those that it always has.
#[derive(Clone, Debug)]
pub(crate) struct Processes {
    root: u32,
    own: Vec<u32>,
}

impl Processes {
    /// Those of a server that has just become ready.
    pub(crate) fn of(root: u32) -> Self {
        Self { root, own: tree(root).into_iter().map(|(id, _)| id).collect() }
    }

    /// The first process.
    pub(crate) fn root(&self) -> u32 {
        self.root
    }

    /// CPU time of each process it always has, and of the children that it waited for, with its name.
    pub(crate) fn each(&self) -> Vec<(String, Duration)> {
        let mut all = Vec::new();
        for id in &self.own {
            let name = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
            let name = name.split(|byte| *byte == 0).nth(1).map(|name| String::from_utf8_lossy(name).into_owned());
            let (name, ticks) = (name.unwrap_or_default(), stat(&id.to_string()).map_or([0; 2], |stat| stat.ticks));
            all.push((format!("{name}'s children"), TICK * ticks[1]));
            all.push((name, TICK * ticks[0]));
        }
        all
    }

    /// Waits until its CPU time stands still, for longer while it has other processes; then the CPU time so far.
    pub(crate) async fn settled(&self) -> Duration {
        let (begin, mut since) = (Instant::now(), Instant::now());
        let mut last = (Duration::ZERO, Vec::new());
        loop {
            let all = tree(self.root);
            let others = all.iter().map(|(id, _)| *id).filter(|id| !self.own.contains(id)).collect();
            let now = (TICK * all.iter().flat_map(|(_, stat)| stat.ticks).sum(), others);
            if now != last {
                (since, last) = (Instant::now(), now);
            }
            let quiet = if last.1.is_empty() { QUIET } else { LONG_QUIET };
            if since.elapsed() >= quiet || begin.elapsed() >= PATIENCE {
                return last.0;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Private memory of a process, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Private {
    /// All that no other process has.
    pub(crate) all: u64,
    /// Without what can be read from files again: packs that libgit2 has mapped are not in here.
    pub(crate) dirty: u64,
}

impl Private {
    fn max(self, other: Self) -> Self {
        Self { all: self.all.max(other.all), dirty: self.dirty.max(other.dirty) }
    }
}

/// Private memory of a process, if it is there.
pub(crate) fn private(id: u32) -> Option<Private> {
    let text = std::fs::read_to_string(format!("/proc/{id}/smaps_rollup")).ok()?;
    let of = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) << 10
    };
    let dirty = of("Private_Dirty:");
    Some(Private { all: dirty + of("Private_Clean:"), dirty })
}

/// The largest private memory that was seen.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Peak {
    /// Of the one process.
    pub(crate) own: Private,
    /// Of the whole tree together, in bytes.
    pub(crate) tree: u64,
}

/// Looks at memory all the time, until it is asked what it saw.
pub(crate) struct Sampler {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Peak>,
}

impl Sampler {
    /// Looks at `process`, and less often at everything below `root`.
    pub(crate) fn start(process: u32, root: u32) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let (mut peak, mut round) = (Peak::default(), 0_u32);
            while !told.load(Ordering::Relaxed) {
                peak.own = peak.own.max(private(process).unwrap_or_default());
                if round.is_multiple_of(10) {
                    peak.tree = peak
                        .tree
                        .max(tree(root).iter().filter_map(|(id, _)| private(*id)).map(|private| private.all).sum());
                }
                round += 1;
                std::thread::sleep(PAUSE);
            }
            peak
        });
        Self { stop, thread }
    }

    /// The largest that was seen.
    pub(crate) fn peak(self) -> Peak {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_default()
    }
}
