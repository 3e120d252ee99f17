//! The metrics of issue-svc.

use ferrite_core::telemetry::Metric;

/// Metrics of this service alone.
pub(crate) const METRICS: &[Metric] = &[
    Metric::counter(
        "ferrite_issue_commit_scans_total",
        &["result"],
        "Scans of pushed commits for references to issues.",
    ),
    Metric::counter(
        "ferrite_issue_timeline_entries_deleted_total",
        &[],
        "Entries of timelines that were deleted as too many or too old.",
    ),
];
