use ferrite_core::telemetry::Metric;

pub(crate) const METRICS: &[Metric] = &[
    Metric::counter(
        "ferrite_owner_transfers_ended_total",
        &["reason"],
        "Transfers that ended before the new owner accepted or declined.",
    ),
    Metric::counter("ferrite_sign_ins_refused_total", &["reason"], "Rejected sign-ins."),
    Metric::counter("ferrite_audit_entries_deleted_total", &[], "Audit log entries deleted because of their age."),
    Metric::gauge("ferrite_last_use_queue_length", &[], "Last uses of tokens and keys not written yet."),
    Metric::gauge("ferrite_store_bytes", &["store"], "Disk size of a git store, in bytes."),
    Metric::gauge("ferrite_store_free_bytes", &["store"], "Free disk space of a git store, in bytes."),
    Metric::gauge("ferrite_store_reachable", &["store"], "1 if a git store responded to the last status request."),
    Metric::gauge("ferrite_store_repositories", &["store"], "Repositories on a git store."),
];
