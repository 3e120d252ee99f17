use ferrite_core::telemetry::Metric;

pub(crate) const METRICS: &[Metric] = &[
    Metric::counter(
        "ferrite_issue_commit_scans_total",
        &["result"],
        "Scans of pushed commits for references to issues.",
    ),
    Metric::counter(
        "ferrite_issue_pull_updates_total",
        &["result"],
        "Updates of pull requests after pushes and merges.",
    ),
    Metric::counter(
        "ferrite_issue_timeline_entries_deleted_total",
        &[],
        "Timeline entries deleted because there were too many or they were too old.",
    ),
];
