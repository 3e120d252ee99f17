//! Runs statements on a [`Db`] and in a [`Tx`], and builds statements whose filters vary ([`Query`]).

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

// `AssertSqlSafe` is needed because the text may come from `Query`, which concatenates constants only.
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
    /// Returns the single row of a query.
    ///
    /// # Errors
    /// When there is no row, or the database fails.
    pub async fn one<T: Row>(&self, sql: &str, args: &[Value]) -> Result<T, DbError> {
        self.count();
        Ok(match &self.pools {
            Pools::Postgres(pool) => pg_as(sql, args).fetch_one(pool).await?,
            Pools::Sqlite { read, .. } => lite_as(sql, args).fetch_one(read).await?,
        })
    }

    /// Returns the first row of a query, if there is one.
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

    /// Returns all rows of a query. The caller must limit their number.
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

    /// Runs one writing statement in a transaction of its own and returns the number of affected rows.
    ///
    /// # Errors
    /// [`DbError::Violation`] when the statement violates a constraint, or when the database fails.
    pub async fn execute(&self, sql: &str, args: &[Value]) -> Result<u64, DbError> {
        let mut tx = self.begin().await?;
        let rows = tx.execute(sql, args).await?;
        tx.commit().await?;
        Ok(rows)
    }

    /// Runs a trivial query.
    ///
    /// # Errors
    /// When the database does not respond.
    pub async fn ping(&self) -> Result<(), DbError> {
        self.one::<(i64,)>("SELECT CAST(1 AS BIGINT)", &[]).await.map(|_| ())
    }

    fn count(&self) {
        self.statements.fetch_add(1, Ordering::Relaxed);
    }
}

impl Tx {
    /// Returns the single row of a query or of a `RETURNING` clause.
    ///
    /// # Errors
    /// When there is no row, the statement violates a constraint, or the database fails.
    pub async fn one<T: Row>(&mut self, sql: &str, args: &[Value]) -> Result<T, DbError> {
        self.count();
        Ok(match &mut self.kind {
            TxKind::Postgres(tx) => pg_as(sql, args).fetch_one(&mut **tx).await?,
            TxKind::Sqlite(tx) => lite_as(sql, args).fetch_one(&mut **tx).await?,
        })
    }

    /// Returns the first row of a query or of a `RETURNING` clause, if there is one.
    ///
    /// # Errors
    /// [`DbError::Violation`] when the statement violates a constraint, or when the database fails.
    pub async fn optional<T: Row>(&mut self, sql: &str, args: &[Value]) -> Result<Option<T>, DbError> {
        self.count();
        Ok(match &mut self.kind {
            TxKind::Postgres(tx) => pg_as(sql, args).fetch_optional(&mut **tx).await?,
            TxKind::Sqlite(tx) => lite_as(sql, args).fetch_optional(&mut **tx).await?,
        })
    }

    /// Returns all rows of a query or of a `RETURNING` clause.
    ///
    /// # Errors
    /// [`DbError::Violation`] when the statement violates a constraint, or when the database fails.
    pub async fn all<T: Row>(&mut self, sql: &str, args: &[Value]) -> Result<Vec<T>, DbError> {
        self.count();
        Ok(match &mut self.kind {
            TxKind::Postgres(tx) => pg_as(sql, args).fetch_all(&mut **tx).await?,
            TxKind::Sqlite(tx) => lite_as(sql, args).fetch_all(&mut **tx).await?,
        })
    }

    /// Runs one statement and returns the number of affected rows.
    ///
    /// # Errors
    /// [`DbError::Violation`] when the statement violates a constraint, or when the database fails.
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

/// A statement built from constant parts, with its arguments apart from the text. Input never becomes SQL text.
#[derive(Clone, Debug, Default)]
pub struct Query {
    sql: String,
    args: Vec<Value>,
}

impl Query {
    /// Begins a statement with a constant part.
    #[must_use]
    pub fn new(sql: &'static str) -> Self {
        Self { sql: sql.to_owned(), args: Vec::new() }
    }

    /// Appends a constant part.
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

    /// Returns the text of the statement.
    #[must_use]
    pub fn sql(&self) -> &str {
        &self.sql
    }

    /// Returns the arguments of the statement.
    #[must_use]
    pub fn args(&self) -> &[Value] {
        &self.args
    }
}
