//! The metrics that every process has.

use super::metric::Metric;

pub(super) const METRICS: &[Metric] = &[
    Metric::gauge("ferrite_build_info", &["version", "commit"], "The program; always 1."),
    // requests
    Metric::counter(
        "ferrite_http_server_requests_total",
        &["operation", "status"],
        "HTTP requests that were answered.",
    ),
    Metric::histogram(
        "ferrite_http_server_request_duration_seconds",
        &["operation"],
        "Time from an HTTP request to the head of its response.",
    ),
    Metric::counter("ferrite_grpc_server_requests_total", &["operation", "status"], "Calls that were answered."),
    Metric::histogram(
        "ferrite_grpc_server_request_duration_seconds",
        &["operation"],
        "Time from a call to the end of its response.",
    ),
    Metric::counter(
        "ferrite_grpc_client_requests_total",
        &["callee", "operation", "status"],
        "Calls to other services, with all their retries.",
    ),
    Metric::histogram(
        "ferrite_grpc_client_request_duration_seconds",
        &["callee", "operation"],
        "Time of a call to another service, with all its retries.",
    ),
    Metric::counter("ferrite_grpc_client_retries_total", &["operation"], "Repetitions of calls to other services."),
    Metric::counter("ferrite_panics_total", &[], "Requests that panicked."),
    Metric::counter("ferrite_service_calls_refused_total", &["caller"], "Calls that a role may not make."),
    Metric::counter("ferrite_tls_reloads_total", &["result"], "Reloads of changed certificates."),
    Metric::counter("ferrite_quota_refused_total", &["kind"], "Requests that a quota refused."),
    Metric::counter("ferrite_token_cache_lookups_total", &["result"], "Tokens that were looked up in Redis."),
    // connections
    Metric::gauge("ferrite_connections", &["listener"], "Open connections."),
    Metric::counter("ferrite_connections_refused_total", &["listener", "reason"], "Connections that were refused."),
    Metric::counter("ferrite_connections_closed_total", &["listener", "reason"], "Connections that a limit closed."),
    Metric::gauge("ferrite_waiting_response_bytes", &[], "Memory of responses that their clients do not read."),
    // database
    Metric::counter("ferrite_db_statements_total", &["kind"], "Statements that were sent to the database."),
    Metric::histogram("ferrite_db_statement_duration_seconds", &["kind"], "Time of a statement, with the wait."),
    Metric::counter("ferrite_db_statement_failures_total", &[], "Statements that failed, constraints left out."),
    Metric::counter(
        "ferrite_query_cache_lookups_total",
        &["cache", "result"],
        "Results of queries that were looked up, on SQLite.",
    ),
    Metric::histogram(
        "ferrite_db_pool_wait_duration_seconds",
        &["pool"],
        "Time for which a statement or a transaction waited for a connection.",
    ),
    Metric::counter("ferrite_db_pool_timeouts_total", &["pool"], "Waits for a connection that ended without one."),
    Metric::gauge("ferrite_db_pool_connections", &["pool"], "Open connections to the database."),
    Metric::gauge(
        "ferrite_db_pool_connections_in_use",
        &["pool"],
        "Connections that run a statement or a transaction.",
    ),
    Metric::gauge("ferrite_db_pool_max_connections", &["pool"], "Largest number of connections."),
    Metric::gauge("ferrite_db_file_bytes", &[], "Size of the SQLite file."),
    Metric::gauge("ferrite_db_free_bytes", &[], "Bytes of the SQLite file that hold nothing."),
    Metric::counter("ferrite_db_released_bytes_total", &[], "Bytes that the SQLite file gave back."),
    // Redis
    Metric::counter("ferrite_redis_commands_total", &["result"], "Commands and pipelines for Redis."),
    Metric::histogram("ferrite_redis_command_duration_seconds", &[], "Time of a command or pipeline."),
    Metric::counter("ferrite_redis_failures_total", &[], "Commands that Redis did not answer in time, or refused."),
    Metric::counter("ferrite_rate_limit_windows_dropped_total", &[], "Counters that were dropped for lack of room."),
    // events
    Metric::counter("ferrite_outbox_delivered_total", &["subscriber"], "Events that a subscriber accepted."),
    Metric::counter("ferrite_outbox_failures_total", &["subscriber"], "Deliveries that a subscriber did not accept."),
    Metric::gauge("ferrite_outbox_waiting_events", &["subscriber"], "Events that wait for a subscriber."),
    Metric::gauge("ferrite_outbox_oldest_seconds", &["subscriber"], "Age of the oldest event that waits."),
    Metric::counter(
        "ferrite_idempotent_responses_not_kept_total",
        &[],
        "Responses that were too large to be kept for a repetition, and have no subject to make them of.",
    ),
];
