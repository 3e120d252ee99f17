//! Duration and span of a statement, and of the wait for a connection.
//!
//! Labels are constants, so that measuring allocates nothing. The span has the text of the
//! statement; values are bound separately and never recorded.

use std::future::Future;
use std::time::Instant;

use ferrite_core::telemetry;
use tracing::{Instrument, Span, field};

use super::error::DbError;

/// Names of the databases in spans, and of their pools in metrics.
pub(super) const POSTGRES: &str = "postgresql";
pub(super) const SQLITE: &str = "sqlite";

const MAX_TEXT_BYTES: usize = 2048;

/// Runs a statement and records its duration, including the wait for a connection. Adds a span if
/// the trace is exported.
pub(super) async fn measured<T>(
    system: &'static str,
    sql: &str,
    work: impl Future<Output = Result<T, DbError>>,
) -> Result<T, DbError> {
    let span = if telemetry::is_sampled() { statement_span(system, sql) } else { Span::none() };
    let started = Instant::now();
    let result = work.instrument(span.clone()).await;
    duration(sql).record(started.elapsed());
    if let Err(error) = &result
        && !matches!(error, DbError::Violation(..))
    {
        span.record("otel.status_code", "ERROR");
        metrics::counter!("ferrite_db_statement_failures_total").increment(1);
    }
    result
}

pub(super) async fn measured_wait<T>(
    pool: &'static str,
    wait: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, sqlx::Error> {
    let started = Instant::now();
    let result = wait.await;
    match pool {
        POSTGRES => metrics::histogram!("ferrite_db_pool_wait_duration_seconds", "pool" => "postgresql"),
        _ => metrics::histogram!("ferrite_db_pool_wait_duration_seconds", "pool" => "sqlite"),
    }
    .record(started.elapsed());
    if matches!(result, Err(sqlx::Error::PoolTimedOut)) {
        metrics::counter!("ferrite_db_pool_timeouts_total", "pool" => pool).increment(1);
    }
    result
}

fn statement_span(system: &'static str, sql: &str) -> Span {
    let operation = operation(sql);
    tracing::info_span!(
        "sql",
        otel.name = operation,
        otel.kind = "client",
        otel.status_code = field::Empty,
        db.system.name = system,
        db.operation.name = operation,
        db.query.text = sql.get(..MAX_TEXT_BYTES).unwrap_or(sql),
    )
}

/// Returns the kind of a statement, its first word.
fn operation(sql: &str) -> &'static str {
    let kinds = ["SELECT", "INSERT", "UPDATE", "DELETE", "WITH", "COMMIT"];
    let sql = sql.trim_start();
    kinds.into_iter().find(|kind| sql.starts_with(kind)).unwrap_or("OTHER")
}

fn duration(sql: &str) -> metrics::Histogram {
    match operation(sql) {
        "SELECT" => metrics::histogram!("ferrite_db_statement_duration_seconds", "kind" => "select"),
        "INSERT" => metrics::histogram!("ferrite_db_statement_duration_seconds", "kind" => "insert"),
        "UPDATE" => metrics::histogram!("ferrite_db_statement_duration_seconds", "kind" => "update"),
        "DELETE" => metrics::histogram!("ferrite_db_statement_duration_seconds", "kind" => "delete"),
        "WITH" => metrics::histogram!("ferrite_db_statement_duration_seconds", "kind" => "with"),
        "COMMIT" => metrics::histogram!("ferrite_db_statement_duration_seconds", "kind" => "commit"),
        _ => metrics::histogram!("ferrite_db_statement_duration_seconds", "kind" => "other"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_named_by_its_first_word() {
        for (sql, expected) in [
            ("SELECT 1", "SELECT"),
            (" INSERT INTO x", "INSERT"),
            ("WITH a AS (SELECT 1) DELETE FROM x", "WITH"),
            ("PRAGMA synchronous = FULL; BEGIN IMMEDIATE", "OTHER"),
            ("", "OTHER"),
        ] {
            assert_eq!(operation(sql), expected, "{sql}");
        }
    }
}
