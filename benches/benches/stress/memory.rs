//! Memory of all processes of an installation over time: the proportional set size, which counts
//! shared pages once.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ferrite_benches::memory::{Sample, sample};
use tokio::task::JoinSet;

const SAMPLE_INTERVAL: Duration = Duration::from_millis(500);

/// The first sample, and the one with the highest sum.
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

    /// Prints the sums, and the largest sample by process.
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

pub(crate) struct Sampler {
    peak: Arc<Mutex<Peak>>,
    task: JoinSet<()>,
}

impl Sampler {
    /// Starts sampling the process `root` and everything below it.
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

    pub(crate) async fn stop(mut self) -> Peak {
        self.task.shutdown().await;
        std::mem::take(&mut *self.peak.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
