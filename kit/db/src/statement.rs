//! Converts statements and arguments to the drivers' types.

use futures_util::TryStreamExt as _;
use sqlx::postgres::PgArguments;
use sqlx::query::Query as SqlxQuery;
use sqlx::sqlite::SqliteArguments;
use sqlx::{AssertSqlSafe, Either, Executor as _, Postgres, Sqlite, SqliteConnection};

use super::value::Value;

macro_rules! bind {
    ($query:expr, $args:expr) => {{
        let mut query = $query;
        for value in $args {
            query = match value {
                Value::Int(value) => query.bind(*value),
                Value::Text(value) => query.bind(value.as_deref()),
                Value::Bool(value) => query.bind(*value),
                Value::Bytes(value) => query.bind(value.as_deref()),
            };
        }
        query
    }};
}

// `AssertSqlSafe`, because the text may come from `Query`, which only concatenates constants.
pub(super) fn postgres<'q>(sql: &str, args: &'q [Value]) -> SqlxQuery<'q, Postgres, PgArguments> {
    bind!(sqlx::query::<Postgres>(AssertSqlSafe(sql)), args)
}

pub(super) fn sqlite<'q>(sql: &str, args: &'q [Value]) -> SqlxQuery<'q, Sqlite, SqliteArguments> {
    bind!(sqlx::query::<Sqlite>(AssertSqlSafe(sql)), args)
}

/// Runs statements on SQLite. Returns the number of rows that the last one affected.
pub(super) async fn sqlite_changes(
    connection: &mut SqliteConnection,
    sql: &str,
    args: &[Value],
) -> Result<u64, sqlx::Error> {
    let mut results = connection.fetch_many(sqlite(sql, args));
    let mut changes = 0;
    while let Some(result) = results.try_next().await? {
        if let Either::Left(done) = result {
            changes = done.rows_affected();
        }
    }
    Ok(changes)
}
