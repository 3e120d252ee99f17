//! The metrics of the gateway.

use ferrite_core::telemetry::Metric;

/// Metrics of this service alone.
pub(crate) const METRICS: &[Metric] = &[
    Metric::counter(
        "ferrite_bodies_refused_total",
        &["limit"],
        "Bodies of requests that were refused for lack of memory.",
    ),
    Metric::counter(
        "ferrite_blocking_refused_total",
        &["pool", "limit"],
        "Renderings, pictures and large responses that a limit refused.",
    ),
    Metric::counter(
        "ferrite_requests_refused_total",
        &["reason"],
        "Requests that were refused because of their client.",
    ),
    Metric::counter("ferrite_responses_over_budget_total", &[], "Responses that were larger than they may be."),
    Metric::counter(
        "ferrite_waiting_responses_refused_total",
        &[],
        "Requests of clients that do not read their responses.",
    ),
    Metric::counter("ferrite_ssh_connections_total", &["result"], "SSH connections."),
    Metric::counter("ferrite_ssh_commands_total", &["service", "result"], "Commands over SSH."),
    Metric::counter("ferrite_transfers_revoked_total", &[], "Transfers that ended because the right to them did."),
];
