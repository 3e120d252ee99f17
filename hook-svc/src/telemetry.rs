//! The metrics of hook-svc.

use ferrite_core::telemetry::Metric;

/// Metrics of this service alone.
pub(crate) const METRICS: &[Metric] = &[
    Metric::counter("ferrite_hook_events_total", &[], "Events that were made into deliveries, or into none."),
    Metric::counter(
        "ferrite_hook_redacted_events_total",
        &[],
        "Events from which a text was taken out that was changed or deleted later.",
    ),
    Metric::counter("ferrite_hook_attempts_total", &["outcome"], "Requests to webhooks."),
    Metric::histogram("ferrite_hook_attempt_duration_seconds", &[], "Time of a request to a webhook."),
    Metric::gauge("ferrite_hook_queue_length", &[], "Deliveries that wait, those of paused webhooks with them."),
    Metric::gauge("ferrite_hook_queue_oldest_seconds", &[], "Age of the oldest delivery that waits."),
    Metric::gauge(
        "ferrite_hook_deliveries_due",
        &[],
        "Deliveries in order that are due and not sent yet, one for each webhook and repository.",
    ),
    Metric::gauge("ferrite_hook_kept_bytes", &[], "Bytes of events and delivery logs of all repositories."),
    Metric::counter(
        "ferrite_hook_evicted_bytes_total",
        &["bound"],
        "Bytes of events and deliveries that went beyond a bound in bytes.",
    ),
    Metric::gauge("ferrite_hook_due_seconds", &[], "Time since when the longest waiting delivery has been due."),
];
