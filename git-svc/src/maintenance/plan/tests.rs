use std::time::Duration;

use clap::Parser as _;
use git_store::disk::usage::PackCount;

use super::*;
use crate::config::maintenance::MaintenanceArgs;

#[derive(clap::Parser)]
struct Settings {
    #[command(flatten)]
    maintenance: MaintenanceArgs,
}

const HOUR: i64 = 3600 * 1_000_000;
const DAY: i64 = 24 * HOUR;

fn options() -> MaintenanceOptions {
    Settings::parse_from(["x"]).maintenance.options()
}

fn off() -> MaintenanceOptions {
    let never = Duration::ZERO;
    MaintenanceOptions {
        loose_objects: 0,
        packs: 0,
        updates: 0,
        repack_after: never,
        full_after: never,
        check_after: never,
        loose_refs: 0,
        ..options()
    }
}

/// A repository that was packed at time 0 and had one update since.
fn row() -> MaintenanceRow {
    MaintenanceRow { repository_id: 1, number: 1, ..MaintenanceRow::default() }
}

fn repack(row: MaintenanceRow, usage: &DiskUsage, now_us: i64) -> Option<Repack> {
    assert!(JobPlan::of(&row, usage, 10_000, &off(), now_us).is_empty());
    JobPlan::of(&row, usage, 0, &options(), now_us).repack
}

#[test]
fn a_few_changes_need_nothing_until_a_day_has_passed() {
    let calm = DiskUsage { loose: 255, recent: PackCount { packs: 15, objects: 300 }, ..DiskUsage::default() };
    assert_eq!(repack(row(), &calm, HOUR), None);
    assert_eq!(next_us(&row(), &calm, &options()), DAY);
    assert_eq!(repack(row(), &calm, DAY), Some(Repack::Base));
    let packed = MaintenanceRow { packed_number: 1, packed_us: DAY, ..row() };
    assert_eq!(repack(packed, &calm, 3 * DAY), None);
    assert_eq!(next_us(&packed, &calm, &options()), 7 * DAY);
    let full = MaintenanceRow { full_number: 1, full_us: 7 * DAY, ..packed };
    assert_eq!((repack(full, &calm, 100 * DAY), next_us(&full, &calm, &options())), (None, 30 * DAY));
    assert_eq!(next_us(&row(), &DiskUsage { cruft: 1, ..calm }, &off()), NEVER);
}

#[test]
fn loose_objects_that_cannot_be_packed_are_not_tried_again() {
    let loose = DiskUsage { loose: 256, ..DiskUsage::default() };
    assert_eq!(repack(row(), &loose, HOUR), Some(Repack::Recent));
    assert_eq!(repack(MaintenanceRow { loose_left: 1, ..row() }, &loose, HOUR), None);
}

#[test]
fn many_packs_are_combined_and_many_updates_make_a_new_base() {
    let packs = |packs, objects, base| DiskUsage {
        recent: PackCount { packs, objects },
        base: PackCount { packs: 20, objects: base },
        ..DiskUsage::default()
    };
    assert_eq!(repack(row(), &packs(16, 40, 0), HOUR), Some(Repack::Recent));
    assert_eq!(repack(row(), &packs(15, 40, 0), HOUR), None);
    let busy = |number, base| repack(MaintenanceRow { number, packed_number: 10, ..row() }, &packs(1, 25, base), HOUR);
    assert_eq!((busy(59, 100), busy(60, 100), busy(60, 101)), (None, Some(Repack::Base), None));
}

#[test]
fn a_base_that_is_outgrown_is_all_that_a_job_makes_anew() {
    let plan = JobPlan::of(&row(), &DiskUsage::default(), 201, &options(), 40 * DAY);
    assert!(plan.check && plan.repack == Some(Repack::Full));
    let of_base = JobPlan { refs: true, repack: Some(Repack::Base), graph: true, check: false };
    assert_eq!(plan.of_base(&row()), of_base);
}

#[test]
fn a_full_repack_is_due_after_a_week_and_when_unused_objects_have_expired() {
    let plan = JobPlan::of(&row(), &DiskUsage::default(), 201, &options(), 7 * DAY);
    assert_eq!(plan, JobPlan { refs: true, repack: Some(Repack::Full), graph: true, check: false });
    let quiet = MaintenanceRow { packed_number: 1, full_number: 1, graph_number: 1, ..row() };
    let cruft = DiskUsage { cruft: 1, ..DiskUsage::default() };
    assert_eq!(repack(quiet, &cruft, 14 * DAY), None);
    let plan = |loose_refs| JobPlan::of(&quiet, &cruft, loose_refs, &options(), 15 * DAY);
    assert_eq!(plan(0), JobPlan { refs: false, repack: Some(Repack::Full), graph: false, check: false });
    assert!(plan(1).refs, "a full job packs what refs there are");
}
#[test]
fn many_unreachable_objects_are_removed_as_soon_as_they_have_expired() {
    let quiet = MaintenanceRow { packed_number: 1, full_number: 1, full_us: 10 * DAY, graph_number: 1, ..row() };
    let crowded = |oldest| DiskUsage { cruft: 1, oldest_cruft_us: Some(oldest), ..DiskUsage::default() };
    assert_eq!(next_us(&quiet, &crowded(DAY), &options()), 15 * DAY);
    assert_eq!(repack(quiet, &crowded(DAY), 15 * DAY), Some(Repack::Full));
    assert_eq!(repack(quiet, &crowded(2 * DAY), 15 * DAY), None);
    assert_eq!(
        next_us(&MaintenanceRow { full_us: 15 * DAY, ..quiet }, &crowded(DAY), &options()),
        16 * DAY,
        "not all day long"
    );
}

#[test]
fn objects_are_checked_monthly_and_daily_after_some_were_missing() {
    let quiet = MaintenanceRow { packed_number: 1, full_number: 1, ..row() };
    let plan = |row: MaintenanceRow, now| JobPlan::of(&row, &DiskUsage::default(), 0, &options(), now);
    assert!(plan(quiet, 30 * DAY - 1).is_empty());
    let due = plan(quiet, 30 * DAY);
    assert!(due.check && !due.changes() && due.kind() == "check");
    let broken = MaintenanceRow { broken: 1, ..quiet };
    assert!(plan(broken, DAY - 1).is_empty() && plan(broken, DAY).check);
}
