//! Memory of one process or of a whole installation.

use std::collections::BTreeMap;

use crate::Failure;
use crate::installation::Installation;
use crate::processes::{command_line, tree, with_children};

/// Written to `clear_refs`, it resets the peak (proc(5)).
const RESET_PEAK: &str = "5";

/// A role's process, by its id.
#[derive(Clone, Copy, Debug)]
pub struct Process(u32);

impl Process {
    pub fn of_role(installation: &Installation, role: &str) -> Result<Self, Failure> {
        let found = with_children(&installation.process_ids()).into_iter().find(|(_, name)| name == role);
        Ok(Self(found.ok_or_else(|| format!("{role} is not running"))?.0))
    }

    pub fn id(self) -> u32 {
        self.0
    }

    /// Resets the peak of [`Process::peak_mib`], if the system allows it; otherwise that is the
    /// peak since the start.
    pub fn reset_peak(self) {
        let _ = std::fs::write(format!("/proc/{}/clear_refs", self.0), RESET_PEAK);
    }

    /// Current resident memory.
    pub fn resident_mib(self) -> Result<f64, Failure> {
        self.field("VmRSS:")
    }

    /// Peak resident memory.
    pub fn peak_mib(self) -> Result<f64, Failure> {
        self.field("VmHWM:")
    }

    fn field(self, name: &str) -> Result<f64, Failure> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0))?;
        let value = status.lines().find_map(|line| line.strip_prefix(name)?.trim().strip_suffix(" kB"));
        Ok(value.ok_or_else(|| format!("no {name} of process {}", self.0))?.trim().parse::<f64>()? / 1024.0)
    }
}

/// Private memory of a process, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Private {
    /// Memory not shared with other processes.
    pub all: u64,
    /// The part that is not backed by files: without packs mapped by libgit2.
    pub dirty: u64,
}

/// Private memory of a process, or `None` if it has ended.
pub fn private(id: u32) -> Option<Private> {
    let maps = memory_maps(id)?;
    let dirty = bytes_of(&maps, "Private_Dirty:");
    Some(Private { all: dirty + bytes_of(&maps, "Private_Clean:"), dirty })
}

/// Memory of a process and all below it, in bytes: the proportional set size, which counts shared
/// pages once.
pub fn proportional(root: u32) -> u64 {
    tree(root).iter().filter_map(|(id, _)| Some(bytes_of(&memory_maps(*id)?, "Pss:"))).sum()
}

/// Proportional set sizes in MiB, by process name.
pub type Sample = BTreeMap<String, u64>;

/// Memory of `root` and of all processes below it. Git processes are one entry.
pub fn sample(root: u32) -> Sample {
    let mut sample = Sample::new();
    for (id, _) in tree(root) {
        let Some(maps) = memory_maps(id) else { continue };
        *sample.entry(name(id)).or_default() += bytes_of(&maps, "Pss:") >> 20;
    }
    sample
}

fn name(id: u32) -> String {
    let mut words = command_line(id).into_iter();
    let program = words.next().unwrap_or_default();
    let file = program.rsplit('/').next().unwrap_or_default();
    if file.starts_with("git") { "git".to_owned() } else { words.next().unwrap_or_default() }
}

fn memory_maps(id: u32) -> Option<String> {
    std::fs::read_to_string(format!("/proc/{id}/smaps_rollup")).ok()
}

fn bytes_of(maps: &str, name: &str) -> u64 {
    let line = maps.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) << 10
}
