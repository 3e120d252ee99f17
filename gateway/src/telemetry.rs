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
    Metric::counter("ferrite_pages_total", &["group", "status"], "Web pages served."),
    Metric::gauge("ferrite_expensive_pages_running", &[], "Expensive web pages being made."),
    Metric::gauge("ferrite_expensive_pages_waiting", &[], "Expensive web pages waiting for a place."),
    Metric::counter("ferrite_expensive_pages_refused_total", &["limit"], "Expensive web pages refused by a limit."),
    Metric::counter(
        "ferrite_expensive_pages_shared_total",
        &[],
        "Expensive web pages that were being made for another visitor.",
    ),
    Metric::histogram(
        "ferrite_expensive_page_duration_seconds",
        &["group"],
        "Time to make an expensive web page, without its wait.",
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
