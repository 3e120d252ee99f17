//! When and how repositories are repacked. A trigger of 0 is off.

use std::time::Duration;

use crate::admission::backlog::ConsolidationLimits;

/// Loose objects that count like one pack. An API commit adds about three, a push one pack.
pub(crate) const LOOSE_OBJECTS_PER_PACK: u64 = 16;
/// Rebuilds of the base, by time, per full repack.
pub(crate) const FULL_WINDOWS: u32 = 7;
/// Time limit of one step of a job.
pub(crate) const STEP_DEADLINE: Duration = Duration::from_secs(3600);
/// Updates after which a base is rebuilt, if its bitmap covers too little by then.
pub(crate) const UPDATES_PER_BASE: u64 = 50;
/// Percentage of unreachable bytes above which they are removed as soon as they expire.
pub(crate) const MAX_CRUFT_PERCENT: u64 = 20;
pub(crate) const CHECK_INTERVAL: Duration = Duration::from_secs(30 * 24 * 3600);
/// Loose refs above which all refs are packed.
pub(crate) const MAX_LOOSE_REFS: u64 = 200;

#[derive(Clone, Copy, Debug)]
pub(crate) struct MaintenanceOptions {
    /// Interval of looking for repositories that need maintenance; zero for no maintenance.
    pub(crate) interval: Duration,
    /// Time limit of one step of a job.
    pub(crate) deadline: Duration,
    pub(crate) loose_objects: u64,
    /// Packs newer than the base that trigger a combination.
    pub(crate) packs: u64,
    /// Updates after which a small base is rebuilt.
    pub(crate) updates: u64,
    /// Time after which the base of a changed repository is rebuilt.
    pub(crate) repack_after: Duration,
    /// Time after which a changed repository is fully repacked.
    pub(crate) full_after: Duration,
    /// Percentage of unreferenced bytes above which they are removed as soon as possible.
    pub(crate) cruft_percent: u64,
    pub(crate) check_after: Duration,
    /// How long objects are kept after maintenance found them unreferenced.
    pub(crate) expire_after: Duration,
    /// Loose refs above which all refs are packed.
    pub(crate) loose_refs: u64,
}

impl MaintenanceOptions {
    /// Returns the thresholds for consolidation after writes. Without maintenance there is none.
    pub(crate) fn consolidation_limits(&self) -> ConsolidationLimits {
        if self.interval.is_zero() {
            return ConsolidationLimits::default();
        }
        ConsolidationLimits { packs: self.packs, loose: self.loose_objects }
    }

    /// Limit on concurrent consolidations: one per two cores, each with one thread.
    pub(super) fn max_consolidations() -> usize {
        (cores() / 2).max(1)
    }

    /// Limit on concurrent jobs: one per four cores.
    pub(super) fn max_jobs() -> usize {
        (cores() / 4).max(1)
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
