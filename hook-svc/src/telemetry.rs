use ferrite_core::telemetry::Metric;

pub(crate) const METRICS: &[Metric] = &[
    Metric::counter("ferrite_hook_events_total", &[], "Dispatched events, whether or not a webhook receives them."),
    Metric::counter(
        "ferrite_hook_redacted_events_total",
        &[],
        "Events with a removed text, because it was edited or deleted later.",
    ),
    Metric::counter("ferrite_hook_attempts_total", &["outcome"], "Requests to webhooks."),
    Metric::histogram("ferrite_hook_attempt_duration_seconds", &[], "Duration of a request to a webhook."),
    Metric::gauge("ferrite_hook_queue_length", &[], "Pending deliveries, including those of paused webhooks."),
    Metric::gauge("ferrite_hook_queue_oldest_seconds", &[], "Age of the oldest pending delivery."),
    Metric::gauge("ferrite_hook_deliveries_due", &[], "Delivery queues whose next delivery is due."),
    Metric::gauge("ferrite_hook_kept_bytes", &[], "Bytes of events and delivery logs of all repositories."),
    Metric::counter(
        "ferrite_hook_evicted_bytes_total",
        &["bound"],
        "Bytes of events and deliveries removed to stay within a size limit.",
    ),
    Metric::gauge("ferrite_hook_due_seconds", &[], "How long the most overdue delivery has been due."),
];
