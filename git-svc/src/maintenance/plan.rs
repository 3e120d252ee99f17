//! Decides from a repository's row and measurements which maintenance is due now, and when the next
//! one is. Does no I/O.

use std::time::Duration;

use ferrite_core::micros;
use git_store::disk::usage::DiskUsage;

use super::options::MaintenanceOptions;
use crate::db::{MaintenanceRow, NEVER};

/// Delay of a full repack for expired objects, after the earliest time at which one may have
/// expired.
const EXPIRY_MARGIN: Duration = DAY;
/// Many updates trigger a new base once objects without a bitmap reach a quarter of the base.
const UPDATED_SHARE: u64 = 4;
/// Time until the next check of a repository that lacked objects or could not be checked.
pub(super) const DAY: Duration = Duration::from_secs(24 * 3600);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repack {
    /// Loose objects and packs newer than the base.
    Recent,
    /// Rebuild the base: combine small packs, index all.
    Base,
    Full,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct JobPlan {
    pub(super) refs: bool,
    pub(super) repack: Option<Repack>,
    /// Write the commit-graph, because refs were updated since the last one.
    pub(super) graph: bool,
    /// Check that all objects are present.
    pub(super) check: bool,
}

impl JobPlan {
    /// Plans the work for a repository at `now_us` (microseconds since 1970).
    pub(super) fn of(
        row: &MaintenanceRow,
        usage: &DiskUsage,
        loose_refs: u64,
        options: &MaintenanceOptions,
        now_us: i64,
    ) -> Self {
        let is_due = |at: Option<i64>| at.is_some_and(|at| at <= now_us);
        let updates = u64::try_from(row.number.saturating_sub(row.packed_number)).unwrap_or(0);
        let loose = usage.loose.saturating_sub(u64::try_from(row.loose_left).unwrap_or(0));
        let is_above = |value: u64, limit: u64| limit > 0 && value > limit;
        let is_at_least = |value: u64, limit: u64| limit > 0 && value >= limit;
        // In a small repository, many updates trigger a new base before there are many objects.
        let has_share = usage.recent_objects().saturating_mul(UPDATED_SHARE) >= usage.base.objects;
        let repack = if is_due(full_at(row, usage, options)) {
            Some(Repack::Full)
        } else if is_due(packed_at(row, options)) || (is_at_least(updates, options.updates) && has_share) {
            Some(Repack::Base)
        } else {
            let is_due = is_at_least(usage.recent.packs, options.packs) || is_at_least(loose, options.loose_objects);
            is_due.then_some(Repack::Recent)
        };
        let graph = matches!(repack, Some(Repack::Base | Repack::Full)) && row.number > row.graph_number;
        let check = is_due(check_at(row, options));
        let refs = is_above(loose_refs, options.loose_refs) || (repack == Some(Repack::Full) && loose_refs > 0);
        Self { refs, repack, graph, check }
    }

    /// Returns the part of the plan that belongs to a new base, which is due.
    pub(super) fn of_base(self, row: &MaintenanceRow) -> Self {
        Self { refs: self.refs, repack: Some(Repack::Base), graph: row.number > row.graph_number, check: false }
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.check && !self.changes()
    }

    /// Returns whether the plan changes files of the repository.
    pub(super) fn changes(&self) -> bool {
        self.refs || self.repack.is_some()
    }

    /// Name of the plan in logs and metrics.
    pub(super) fn kind(&self) -> &'static str {
        match self.repack {
            Some(Repack::Full) => "full",
            Some(Repack::Base) => "base",
            Some(Repack::Recent) => "consolidation",
            None if self.refs => "refs",
            None => "check",
        }
    }
}

/// Time of the next job if the repository does not change before, in microseconds since 1970;
/// [`NEVER`] if none is needed.
pub(super) fn next_us(row: &MaintenanceRow, usage: &DiskUsage, options: &MaintenanceOptions) -> i64 {
    let times = [full_at(row, usage, options), packed_at(row, options), check_at(row, options)];
    times.into_iter().flatten().min().unwrap_or(NEVER)
}

fn packed_at(row: &MaintenanceRow, options: &MaintenanceOptions) -> Option<i64> {
    let is_behind = row.number > row.packed_number && !options.repack_after.is_zero();
    is_behind.then(|| after(row.packed_us, options.repack_after))
}

fn full_at(row: &MaintenanceRow, usage: &DiskUsage, options: &MaintenanceOptions) -> Option<i64> {
    if options.full_after.is_zero() {
        return None;
    }
    let changed = (row.number > row.full_number).then(|| after(row.full_us, options.full_after));
    let expired = (usage.cruft > 0).then(|| after(row.full_us, options.expire_after.saturating_add(EXPIRY_MARGIN)));
    // Known only if unreachable objects take more than `cruft_percent` of the repository.
    let oldest = usage.oldest_cruft_us.map(|oldest| after(oldest, options.expire_after));
    let crowded = oldest.map(|oldest| oldest.max(after(row.full_us, EXPIRY_MARGIN)));
    [changed, expired, crowded].into_iter().flatten().min()
}

fn check_at(row: &MaintenanceRow, options: &MaintenanceOptions) -> Option<i64> {
    let pause = if row.broken == 0 { options.check_after } else { options.check_after.min(DAY) };
    (!options.check_after.is_zero()).then(|| after(row.checked_us, pause))
}

fn after(time_us: i64, pause: Duration) -> i64 {
    time_us.saturating_add(micros(pause))
}

#[cfg(test)]
mod tests;
