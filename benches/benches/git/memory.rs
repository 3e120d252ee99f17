//! Peak memory of one process and of a whole server during an action.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use ferrite_benches::memory::{Private, private, proportional};

const SAMPLE_INTERVAL: Duration = Duration::from_millis(20);
/// Samples of one process per sample of the whole tree, which takes longer.
const SAMPLES_PER_TREE: u32 = 10;

/// Peak values of a [`Sampler`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Peak {
    /// Private memory of the one process.
    pub(crate) own: Private,
    /// Memory of the whole tree ([`proportional`]), in bytes.
    pub(crate) tree: u64,
}

/// Samples memory in a thread until [`Sampler::peak`] is called.
pub(crate) struct Sampler {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Peak>,
}

impl Sampler {
    /// Samples the memory of `process`, and less often that of the process tree below `root`.
    pub(crate) fn start(process: u32, root: u32) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let is_stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let (mut peak, mut round) = (Peak::default(), 0_u32);
            while !is_stopped.load(Ordering::Relaxed) {
                let own = private(process).unwrap_or_default();
                peak.own = Private { all: peak.own.all.max(own.all), dirty: peak.own.dirty.max(own.dirty) };
                if round.is_multiple_of(SAMPLES_PER_TREE) {
                    peak.tree = peak.tree.max(proportional(root));
                }
                round += 1;
                std::thread::sleep(SAMPLE_INTERVAL);
            }
            peak
        });
        Self { stop, thread }
    }

    /// Stops the thread.
    pub(crate) fn peak(self) -> Peak {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_default()
    }
}
