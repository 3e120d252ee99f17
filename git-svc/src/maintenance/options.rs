//! When repositories are repacked, and how, as plain values. A trigger of 0 is switched off.

use std::time::Duration;

use crate::admission::backlog::ConsolidationLimits;

/// Loose objects for each pack of the setting from which on both are combined: a commit by API is some three of them, a push one pack.
pub(crate) const LOOSE_OBJECTS_PER_PACK: u64 = 16;
/// Times that the base of a repository that changed is made anew until all of its objects are.
pub(crate) const FULL_WINDOWS: u32 = 7;
/// Longest time of one step of a job.
pub(crate) const STEP_DEADLINE: Duration = Duration::from_secs(3600);
/// Updates after which a base is made anew, if its bitmap covers too little by then.
pub(crate) const UPDATES_PER_BASE: u64 = 50;
/// Percent of a repository's bytes above which unreachable objects are removed as soon as they expire.
pub(crate) const MAX_CRUFT_PERCENT: u64 = 20;
/// Time after which a repository is checked again for missing objects.
pub(crate) const CHECK_INTERVAL: Duration = Duration::from_secs(30 * 24 * 3600);
/// Loose refs above which all refs are packed.
pub(crate) const MAX_LOOSE_REFS: u64 = 200;

/// Options of the service.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MaintenanceOptions {
    /// Time between two searches for repositories that need maintenance; zero for no maintenance.
    pub(crate) interval: Duration,
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

    /// Returns the number of jobs that run at once: one per four cores.
    pub(super) fn max_jobs() -> usize {
        (cores() / 4).max(1)
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
