//! The metrics of repo-svc.

use ferrite_core::telemetry::Metric;

/// Metrics of this service alone.
pub(crate) const METRICS: &[Metric] = &[
    Metric::counter(
        "ferrite_owner_transfers_ended_total",
        &["reason"],
        "Transfers that ended without their new owner.",
    ),
    Metric::counter("ferrite_sign_ins_refused_total", &["reason"], "Sign-ins that were refused."),
    Metric::counter("ferrite_audit_entries_deleted_total", &[], "Old entries that the audit log has deleted."),
    Metric::gauge("ferrite_last_use_queue_length", &[], "Last uses of tokens and keys that wait to be written."),
    Metric::gauge("ferrite_store_bytes", &["store"], "Bytes of the disk of a git store in all."),
    Metric::gauge("ferrite_store_free_bytes", &["store"], "Bytes of the disk of a git store that may still be used."),
    Metric::gauge("ferrite_store_reachable", &["store"], "1 if a git store answered when it was last asked."),
    Metric::gauge("ferrite_store_repositories", &["store"], "Repositories of a git store."),
];
