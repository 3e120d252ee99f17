//! Tests of the plan: which task a repository is due for, and when.

use clap::Parser as _;

use super::*;
use crate::config::maintenance::MaintenanceArgs;

#[derive(clap::Parser)]
struct Settings {
    #[command(flatten)]
    upkeep: MaintenanceArgs,
}

const HOUR: i64 = 3600 * 1_000_000;
const DAY: i64 = 24 * HOUR;

fn options() -> MaintenanceOptions {
    Settings::parse_from(["x"]).upkeep.options()
}

fn off() -> MaintenanceOptions {
    let names = ["loose-objects", "packs", "updates", "repack-seconds", "full-seconds", "loose-refs", "check-seconds"];
    let flags = names.iter().flat_map(|name| [format!("--upkeep-{name}"), "0".to_owned()]);
    Settings::parse_from(["x".to_owned()].into_iter().chain(flags)).upkeep.options()
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
    let calm = DiskUsage { loose: 500, packs: vec![1; 8], ..DiskUsage::default() };
    assert_eq!(repack(row(), &calm, HOUR), None);
    assert_eq!(next_us(&row(), &calm, &options()), DAY);
    assert_eq!(repack(row(), &calm, DAY), Some(Repack::Geometric));
    let packed = MaintenanceRow { packed_number: 1, packed_us: DAY, ..row() };
    assert_eq!(repack(packed, &calm, 3 * DAY), None);
    assert_eq!(next_us(&packed, &calm, &options()), 7 * DAY);
    let full = MaintenanceRow { full_number: 1, full_us: 7 * DAY, ..packed };
    assert_eq!((repack(full, &calm, 100 * DAY), next_us(&full, &calm, &options())), (None, 30 * DAY));
    assert_eq!(next_us(&row(), &DiskUsage { cruft: 1, ..calm }, &off()), NEVER);
}

#[test]
fn loose_objects_that_cannot_be_packed_are_not_tried_again() {
    let loose = DiskUsage { loose: 501, ..DiskUsage::default() };
    assert_eq!(repack(row(), &loose, HOUR), Some(Repack::Loose));
    assert_eq!(repack(MaintenanceRow { loose_left: 1, ..row() }, &loose, HOUR), None);
}

#[test]
fn many_packs_or_updates_are_combined() {
    let packs = |packs: Vec<u64>| DiskUsage { packs, ..DiskUsage::default() };
    assert_eq!(repack(row(), &packs(vec![1; 9]), HOUR), Some(Repack::Geometric));
    let geometric = (0..9).map(|power| 3_u64.pow(power)).collect();
    assert_eq!(repack(row(), &packs(geometric), HOUR), None);
    let busy = |number| repack(MaintenanceRow { number, packed_number: 10, ..row() }, &packs(vec![]), HOUR);
    assert_eq!((busy(59), busy(60)), (None, Some(Repack::Geometric)));
}

#[test]
fn a_full_repack_is_due_after_a_week_and_when_unused_objects_have_expired() {
    let plan = JobPlan::of(&row(), &DiskUsage::default(), 201, &options(), 7 * DAY);
    assert_eq!(plan, JobPlan { refs: true, repack: Some(Repack::Full), graph: true, check: false });
    let quiet = MaintenanceRow { packed_number: 1, full_number: 1, graph_number: 1, ..row() };
    let cruft = DiskUsage { cruft: 1, ..DiskUsage::default() };
    assert_eq!(repack(quiet, &cruft, 14 * DAY), None);
    let plan = JobPlan::of(&quiet, &cruft, 200, &options(), 15 * DAY);
    assert_eq!(plan, JobPlan { refs: false, repack: Some(Repack::Full), graph: false, check: false });
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
