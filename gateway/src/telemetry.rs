//! The metrics of the gateway.

use ferrite_core::telemetry::Metric;

/// Metrics of this service only.
pub(crate) const METRICS: &[Metric] = &[
    Metric::counter(
        "ferrite_bodies_refused_total",
        &["limit"],
        "Request bodies rejected because the memory for bodies was used up.",
    ),
    Metric::counter(
        "ferrite_blocking_refused_total",
        &["pool", "limit"],
        "Renderings, pictures and large responses rejected by a limit.",
    ),
    Metric::counter(
        "ferrite_requests_refused_total",
        &["reason"],
        "Requests rejected because their address had too many concurrent requests.",
    ),
    Metric::counter("ferrite_responses_over_budget_total", &[], "Responses above the size limit."),
    Metric::counter(
        "ferrite_waiting_responses_refused_total",
        &[],
        "Requests rejected because their client does not read its responses.",
    ),
    Metric::counter("ferrite_ssh_connections_total", &["result"], "SSH connections."),
    Metric::counter("ferrite_ssh_commands_total", &["service", "result"], "SSH commands."),
    Metric::counter("ferrite_transfers_revoked_total", &[], "Transfers cut off because the permission was revoked."),
];
