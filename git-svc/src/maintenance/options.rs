//! When repositories are repacked, and how, as plain values. A trigger of 0 is switched off.

use std::time::Duration;

/// Options of the service.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MaintenanceOptions {
    /// Time between two searches for repositories that need maintenance; zero for no maintenance.
    pub(crate) interval: Duration,
    /// Jobs at once; 0 for one per four cores.
    pub(crate) jobs: usize,
    /// Longest time of one step of a job.
    pub(crate) deadline: Duration,
    /// Loose objects above which they are packed.
    pub(crate) loose_objects: u64,
    /// Packs above which small ones are combined, if their sizes do not grow geometrically.
    pub(crate) packs: u64,
    /// Updates after which small packs are combined.
    pub(crate) updates: u64,
    /// Time after which small packs of a repository that changed are combined.
    pub(crate) repack_after: Duration,
    /// Time after which a repository that changed is packed anew.
    pub(crate) full_after: Duration,
    /// Percent of a repository's bytes that unreferenced objects may take before they are removed as soon as possible.
    pub(crate) cruft_percent: u64,
    /// Time after which the objects of a repository are checked again.
    pub(crate) check_after: Duration,
    /// Time that objects stay after maintenance has found them unreferenced.
    pub(crate) expire_after: Duration,
    /// Loose refs above which all refs are packed.
    pub(crate) loose_refs: u64,
}

impl MaintenanceOptions {
    /// Returns the number of jobs that run at once.
    pub(super) fn max_jobs(&self) -> usize {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        if self.jobs == 0 { (cores / 4).max(1) } else { self.jobs }
    }
}
