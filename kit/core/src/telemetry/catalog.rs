//! The metrics that every process has.

use super::metric::Metric;

pub(super) const METRICS: &[Metric] = &[
    Metric::gauge("ferrite_build_info", &["version", "commit"], "Version and commit of the program; always 1."),
    // requests
    Metric::counter("ferrite_http_server_requests_total", &["operation", "status"], "HTTP responses."),
    Metric::histogram(
        "ferrite_http_server_request_duration_seconds",
        &["operation"],
        "Time from an HTTP request to the start of its response.",
    ),
    Metric::counter("ferrite_grpc_server_requests_total", &["operation", "status"], "Served RPCs."),
    Metric::histogram("ferrite_grpc_server_request_duration_seconds", &["operation"], "Duration of a served RPC."),
    Metric::counter(
        "ferrite_grpc_client_requests_total",
        &["callee", "operation", "status"],
        "Calls to other services, including their retries.",
    ),
    Metric::histogram(
        "ferrite_grpc_client_request_duration_seconds",
        &["callee", "operation"],
        "Duration of a call to another service, including its retries.",
    ),
    Metric::counter("ferrite_grpc_client_retries_total", &["operation"], "Retries of calls to other services."),
    Metric::counter("ferrite_panics_total", &[], "Requests that panicked."),
    Metric::counter(
        "ferrite_service_calls_refused_total",
        &["caller"],
        "Calls rejected because the caller's role is not allowed to make them.",
    ),
    Metric::counter("ferrite_tls_reloads_total", &["result"], "Reloads of changed certificates."),
    Metric::counter("ferrite_quota_refused_total", &["kind"], "Requests rejected by a quota."),
    Metric::counter("ferrite_token_cache_lookups_total", &["result"], "Lookups of tokens in Redis."),
    // connections
    Metric::gauge("ferrite_connections", &["listener"], "Open connections."),
    Metric::counter("ferrite_connections_refused_total", &["listener", "reason"], "Refused connections."),
    Metric::counter("ferrite_connections_closed_total", &["listener", "reason"], "Connections closed by a limit."),
    Metric::gauge("ferrite_waiting_response_bytes", &[], "Bytes of responses that clients have not read."),
    // database
    Metric::counter("ferrite_db_statements_total", &["kind"], "Statements sent to the database."),
    Metric::histogram(
        "ferrite_db_statement_duration_seconds",
        &["kind"],
        "Duration of a statement, including the wait for a connection.",
    ),
    Metric::counter(
        "ferrite_db_statement_failures_total",
        &[],
        "Failed statements, not counting violated constraints.",
    ),
    Metric::counter(
        "ferrite_query_cache_lookups_total",
        &["cache", "result"],
        "Lookups in the query cache, on SQLite.",
    ),
    Metric::histogram(
        "ferrite_db_pool_wait_duration_seconds",
        &["pool"],
        "Time that a statement or transaction waits for a connection.",
    ),
    Metric::counter("ferrite_db_pool_timeouts_total", &["pool"], "Timed-out waits for a connection."),
    Metric::gauge("ferrite_db_pool_connections", &["pool"], "Open connections to the database."),
    Metric::gauge("ferrite_db_pool_connections_in_use", &["pool"], "Connections in use."),
    Metric::gauge("ferrite_db_pool_max_connections", &["pool"], "Maximum number of connections."),
    Metric::gauge("ferrite_db_file_bytes", &[], "Size of the SQLite file."),
    Metric::gauge("ferrite_db_free_bytes", &[], "Free bytes in the SQLite file."),
    Metric::counter("ferrite_db_released_bytes_total", &[], "Bytes returned to the file system by the SQLite file."),
    // Redis
    Metric::counter("ferrite_redis_commands_total", &["result"], "Commands and pipelines sent to Redis."),
    Metric::histogram("ferrite_redis_command_duration_seconds", &[], "Duration of a command or pipeline."),
    Metric::counter("ferrite_redis_failures_total", &[], "Commands that timed out or failed."),
    Metric::counter("ferrite_rate_limit_windows_dropped_total", &[], "Rate limit counters dropped for lack of space."),
    // events
    Metric::counter("ferrite_outbox_delivered_total", &["subscriber"], "Events accepted by a subscriber."),
    Metric::counter("ferrite_outbox_failures_total", &["subscriber"], "Deliveries not accepted by a subscriber."),
    Metric::gauge("ferrite_outbox_waiting_events", &["subscriber"], "Events waiting for a subscriber."),
    Metric::gauge("ferrite_outbox_oldest_seconds", &["subscriber"], "Age of the oldest waiting event."),
    Metric::counter(
        "ferrite_idempotent_responses_not_kept_total",
        &[],
        "Responses too large to store for retries, without a subject to rebuild them from.",
    ),
];
