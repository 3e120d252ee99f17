//! Memory of all processes of an installation over time: the proportional set size, so that shared pages count once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinSet;

const SAMPLE_INTERVAL: Duration = Duration::from_millis(500);

/// Memory in MiB, by the name of a process.
pub(crate) type Sample = BTreeMap<String, u64>;

/// The first sample, and the one with the largest sum.
#[derive(Debug, Default)]
pub(crate) struct Peak {
    first: Sample,
    largest: Sample,
    last: Sample,
}

impl Peak {
    fn note(&mut self, sample: Sample) {
        if self.first.is_empty() {
            self.first.clone_from(&sample);
        }
        if sum(&sample) > sum(&self.largest) {
            self.largest.clone_from(&sample);
        }
        self.last = sample;
    }

    /// Prints the sums and the largest sample by process.
    pub(crate) fn print(&self) {
        let parts: Vec<_> = self.largest.iter().map(|(name, mib)| format!("{name} {mib}")).collect();
        println!(
            "memory of all processes, MiB: {} at first, {} at its peak ({}), {} at the end",
            sum(&self.first),
            sum(&self.largest),
            parts.join(", "),
            sum(&self.last)
        );
    }
}

fn sum(sample: &Sample) -> u64 {
    sample.values().sum()
}

/// Samples until it is stopped.
pub(crate) struct Sampler {
    peak: Arc<Mutex<Peak>>,
    task: JoinSet<()>,
}

impl Sampler {
    /// Begins to sample the process `root` and everything below it.
    pub(crate) fn start(root: u32) -> Self {
        let peak = Arc::new(Mutex::new(Peak::default()));
        let (mut task, shared) = (JoinSet::new(), Arc::clone(&peak));
        task.spawn(async move {
            loop {
                let sample = tokio::task::block_in_place(|| sample(root));
                shared.lock().unwrap_or_else(PoisonError::into_inner).note(sample);
                tokio::time::sleep(SAMPLE_INTERVAL).await;
            }
        });
        Self { peak, task }
    }

    /// Stops and returns what was seen.
    pub(crate) async fn stop(mut self) -> Peak {
        self.task.shutdown().await;
        std::mem::take(&mut *self.peak.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Memory of `root` and of all processes below it. Processes of git are one entry.
pub(crate) fn sample(root: u32) -> Sample {
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids: Vec<u32> = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    let parents: BTreeMap<u32, u32> = ids.iter().filter_map(|id| Some((*id, parent(*id)?))).collect();
    let mut sample = Sample::new();
    for id in ids.into_iter().filter(|id| is_below(*id, root, &parents)) {
        let Some(mib) = proportional_mib(id) else { continue };
        *sample.entry(name(id)).or_default() += mib;
    }
    sample
}

fn is_below(id: u32, root: u32, parents: &BTreeMap<u32, u32>) -> bool {
    let ancestors = std::iter::successors(Some(id), |id| parents.get(id).copied());
    ancestors.take(parents.len() + 1).any(|id| id == root)
}

fn parent(id: u32) -> Option<u32> {
    let text = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The second field is the name in parentheses, which may hold anything.
    text.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

fn name(id: u32) -> String {
    let command = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
    let mut arguments = command.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    let program = arguments.next().unwrap_or_default();
    let file = program.rsplit('/').next().unwrap_or_default();
    if file.starts_with("git") { "git".to_owned() } else { arguments.next().unwrap_or_default().into_owned() }
}

fn proportional_mib(id: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{id}/smaps_rollup")).ok()?;
    let kib = text.lines().find_map(|line| line.strip_prefix("Pss:")?.trim().strip_suffix(" kB"))?;
    Some(kib.trim().parse::<u64>().ok()? / 1024)
}
