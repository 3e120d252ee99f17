//! When repositories are repacked, and how, as plain values. A trigger of 0 is switched off.

use std::time::Duration;

use crate::admission::backlog::ConsolidationLimits;

/// Options of the service.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MaintenanceOptions {
    /// Time between two searches for repositories that need maintenance; zero for no maintenance.
    pub(crate) interval: Duration,
    /// Jobs at once; 0 for one per four cores.
    pub(crate) jobs: usize,
    /// Longest time of one step of a job.
    pub(crate) deadline: Duration,
    /// Loose objects from which on they are packed.
    pub(crate) loose_objects: u64,
    /// Packs that came since the base from which on they are combined.
    pub(crate) packs: u64,
    /// Updates after which a small base is made anew.
    pub(crate) updates: u64,
    /// Time after which the base of a repository that changed is made anew.
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
    /// Returns from when on repositories are consolidated at their writes: never without maintenance.
    pub(crate) fn consolidation_limits(&self) -> ConsolidationLimits {
        if self.interval.is_zero() {
            return ConsolidationLimits::default();
        }
        ConsolidationLimits { packs: self.packs, loose: self.loose_objects }
    }

    /// Returns the number of consolidations that run at once: one per two cores, each with one thread.
    pub(super) fn max_consolidations() -> usize {
        (cores() / 2).max(1)
    }

    /// Returns the number of jobs that run at once.
    pub(super) fn max_jobs(&self) -> usize {
        if self.jobs == 0 { (cores() / 4).max(1) } else { self.jobs }
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
