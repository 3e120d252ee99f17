//! Running statements, alike on a [`Db`] and inside a [`Tx`], and building those whose filters vary.

use std::sync::atomic::Ordering;

use sqlx::query::{Query as SqlxQuery, QueryAs};
use sqlx::{AssertSqlSafe, Postgres, Sqlite};

use super::error::DbError;
use super::handle::{Db, Pools, Row, Tx, TxKind};
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

// `AssertSqlSafe` is needed because the text may come from `Query`, which joins constants only.
fn pg_as<'q, T: Row>(sql: &str, args: &'q [Value]) -> QueryAs<'q, Postgres, T, sqlx::postgres::PgArguments> {
    bind!(sqlx::query_as::<Postgres, T>(AssertSqlSafe(sql)), args)
}

fn lite_as<'q, T: Row>(sql: &str, args: &'q [Value]) -> QueryAs<'q, Sqlite, T, sqlx::sqlite::SqliteArguments> {
    bind!(sqlx::query_as::<Sqlite, T>(AssertSqlSafe(sql)), args)
}

fn pg<'q>(sql: &str, args: &'q [Value]) -> SqlxQuery<'q, Postgres, sqlx::postgres::PgArguments> {
    bind!(sqlx::query::<Postgres>(AssertSqlSafe(sql)), args)
}

fn lite<'q>(sql: &str, args: &'q [Value]) -> SqlxQuery<'q, Sqlite, sqlx::sqlite::SqliteArguments> {
    bind!(sqlx::query::<Sqlite>(AssertSqlSafe(sql)), args)
}

impl Db {
    /// The one row of a query.
    ///
    /// # Errors
    /// When there is none, or the database fails.
    pub async fn one<T: Row>(&self, sql: &str, args: &[Value]) -> Result<T, DbError> {
        self.count();
        Ok(match &self.pools {
            Pools::Postgres(pool) => pg_as(sql, args).fetch_one(pool).await?,
            Pools::Sqlite { read, .. } => lite_as(sql, args).fetch_one(read).await?,
        })
    }

    /// The first row of a query, if there is one.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn optional<T: Row>(&self, sql: &str, args: &[Value]) -> Result<Option<T>, DbError> {
        self.count();
        Ok(match &self.pools {
            Pools::Postgres(pool) => pg_as(sql, args).fetch_optional(pool).await?,
            Pools::Sqlite { read, .. } => lite_as(sql, args).fetch_optional(read).await?,
        })
    }

    /// All rows of a query. The caller bounds their number.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn all<T: Row>(&self, sql: &str, args: &[Value]) -> Result<Vec<T>, DbError> {
        self.count();
        Ok(match &self.pools {
            Pools::Postgres(pool) => pg_as(sql, args).fetch_all(pool).await?,
            Pools::Sqlite { read, .. } => lite_as(sql, args).fetch_all(read).await?,
        })
    }

    /// Runs one writing statement in a transaction of its own and returns how many rows it touched.
    ///
    /// # Errors
    /// [`DbError::Violation`] when a constraint refuses it, or when the database fails.
    pub async fn execute(&self, sql: &str, args: &[Value]) -> Result<u64, DbError> {
        let mut tx = self.begin().await?;
        let rows = tx.execute(sql, args).await?;
        tx.commit().await?;
        Ok(rows)
    }

    /// Asks the database for the number one.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn ping(&self) -> Result<(), DbError> {
        self.one::<(i64,)>("SELECT CAST(1 AS BIGINT)", &[]).await.map(|_| ())
    }

    fn count(&self) {
        self.statements.fetch_add(1, Ordering::Relaxed);
    }
}

impl Tx {
    /// The one row of a query or of a `RETURNING` clause.
    ///
    /// # Errors
    /// When there is none, a constraint refuses the statement, or the database fails.
    pub async fn one<T: Row>(&mut self, sql: &str, args: &[Value]) -> Result<T, DbError> {
        self.count();
        Ok(match &mut self.kind {
            TxKind::Postgres(tx) => pg_as(sql, args).fetch_one(&mut **tx).await?,
            TxKind::Sqlite(tx) => lite_as(sql, args).fetch_one(&mut **tx).await?,
        })
    }

    /// The first row of a query or of a `RETURNING` clause, if there is one.
    ///
    /// # Errors
    /// When a constraint refuses the statement, or the database fails.
    pub async fn optional<T: Row>(&mut self, sql: &str, args: &[Value]) -> Result<Option<T>, DbError> {
        self.count();
        Ok(match &mut self.kind {
            TxKind::Postgres(tx) => pg_as(sql, args).fetch_optional(&mut **tx).await?,
            TxKind::Sqlite(tx) => lite_as(sql, args).fetch_optional(&mut **tx).await?,
        })
    }

    /// All rows of a query or of a `RETURNING` clause.
    ///
    /// # Errors
    /// When a constraint refuses the statement, or the database fails.
    pub async fn all<T: Row>(&mut self, sql: &str, args: &[Value]) -> Result<Vec<T>, DbError> {
        self.count();
        Ok(match &mut self.kind {
            TxKind::Postgres(tx) => pg_as(sql, args).fetch_all(&mut **tx).await?,
            TxKind::Sqlite(tx) => lite_as(sql, args).fetch_all(&mut **tx).await?,
        })
    }

    /// Runs one statement and returns how many rows it touched.
    ///
    /// # Errors
    /// [`DbError::Violation`] when a constraint refuses it, or when the database fails.
    pub async fn execute(&mut self, sql: &str, args: &[Value]) -> Result<u64, DbError> {
        self.count();
        Ok(match &mut self.kind {
            TxKind::Postgres(tx) => pg(sql, args).execute(&mut **tx).await?.rows_affected(),
            TxKind::Sqlite(tx) => lite(sql, args).execute(&mut **tx).await?.rows_affected(),
        })
    }

    fn count(&self) {
        self.statements.fetch_add(1, Ordering::Relaxed);
    }
}

/// A statement put together from constant pieces, with the values kept apart: input never becomes SQL text.
#[derive(Clone, Debug, Default)]
pub struct Query {
    sql: String,
    args: Vec<Value>,
}

impl Query {
    /// Starts with a constant piece.
    #[must_use]
    pub fn new(sql: &'static str) -> Self {
        Self { sql: sql.to_owned(), args: Vec::new() }
    }

    /// Appends a constant piece.
    pub fn push(&mut self, sql: &'static str) -> &mut Self {
        self.sql.push_str(sql);
        self
    }

    /// Appends a placeholder for `value`.
    pub fn bind(&mut self, value: impl Into<Value>) -> &mut Self {
        self.args.push(value.into());
        self.sql.push('$');
        self.sql.push_str(&self.args.len().to_string());
        self
    }

    /// Appends `(v1, v2, …)` for the right side of `IN`; an empty list matches nothing.
    pub fn bind_list<V: Into<Value>>(&mut self, values: impl IntoIterator<Item = V>) -> &mut Self {
        self.sql.push('(');
        let before = self.args.len();
        for value in values {
            if self.args.len() > before {
                self.sql.push_str(", ");
            }
            self.bind(value);
        }
        if self.args.len() == before {
            self.sql.push_str("NULL");
        }
        self.sql.push(')');
        self
    }

    /// The statement's text.
    #[must_use]
    pub fn sql(&self) -> &str {
        &self.sql
    }

    /// The statement's arguments.
    #[must_use]
    pub fn args(&self) -> &[Value] {
        &self.args
    }
}
