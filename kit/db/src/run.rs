//! Runs statements on a [`Db`] and in a [`Tx`].

use std::sync::atomic::Ordering;

use futures_util::future::BoxFuture;
use sqlx::postgres::PgRow;
use sqlx::sqlite::SqliteRow;

use super::connections::{MAX_ATTEMPTS, is_connection_lost};
use super::error::DbError;
use super::handle::{Db, Pools, Row, SQLITE_RELAXED, SQLITE_SYNCED, Tx, TxKind, count_statement};
use super::measure::{POSTGRES, SQLITE, measured};
use super::sqlite_connections::COMMIT;
use super::statement::{postgres, sqlite, sqlite_changes};
use super::value::{Value, bytes_of};

/// Runs a read on PostgreSQL. Retries on another connection if the connection is lost, as all are
/// after a restart of the server.
macro_rules! read_postgres {
    ($connections:expr, $fetch:ident, $sql:expr, $args:expr) => {{
        let mut attempt = 1;
        loop {
            let mut lease = $connections.lease().await?;
            match postgres($sql, $args).$fetch(&mut *lease).await {
                Ok(found) => {
                    $connections.put_back(lease);
                    break found;
                }
                Err(error) if attempt < MAX_ATTEMPTS && is_connection_lost(&error) => $connections.discard(lease),
                Err(error) => return Err(error.into()),
            }
            attempt += 1;
        }
    }};
}

macro_rules! read_sqlite {
    ($readers:expr, $fetch:ident, $sql:expr, $args:expr) => {{
        let mut lease = $readers.lease().await?;
        let found = sqlite($sql, $args).$fetch(lease.connection()).await?;
        lease.put_back();
        found
    }};
}

/// Decides how PostgreSQL plans a query.
#[derive(Clone, Copy, Debug)]
enum QueryKind {
    Any,
    /// Planned without regard to the arguments.
    Lookup,
    /// Planned like a lookup, but on other connections.
    Page,
}

/// A row of one of the drivers, before it is decoded. The fetching functions have no type
/// parameters and return boxed futures, so that the drivers are compiled once, in this crate, not
/// for every row type of every service.
enum RawRow {
    Postgres(PgRow),
    Sqlite(SqliteRow),
}

impl RawRow {
    fn read<T: Row>(&self) -> Result<T, DbError> {
        Ok(match self {
            Self::Postgres(row) => T::from_row(row)?,
            Self::Sqlite(row) => T::from_row(row)?,
        })
    }
}

enum RawRows {
    Postgres(Vec<PgRow>),
    Sqlite(Vec<SqliteRow>),
}

impl RawRows {
    fn read<T: Row>(&self) -> Result<Vec<T>, DbError> {
        Ok(match self {
            Self::Postgres(rows) => rows.iter().map(T::from_row).collect::<Result<_, _>>()?,
            Self::Sqlite(rows) => rows.iter().map(T::from_row).collect::<Result<_, _>>()?,
        })
    }
}

impl Db {
    /// Returns the single row of a query.
    ///
    /// # Errors
    /// If there is no row, or the database fails.
    pub async fn one<T: Row>(&self, sql: &str, args: &[Value]) -> Result<T, DbError> {
        self.fetch_optional(sql, args).await?.ok_or(sqlx::Error::RowNotFound)?.read()
    }

    /// Returns the first row of a query, if any.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn optional<T: Row>(&self, sql: &str, args: &[Value]) -> Result<Option<T>, DbError> {
        self.fetch_optional(sql, args).await?.map(|row| row.read()).transpose()
    }

    /// Returns the first row of a lookup, if any: a query whose best plan does not depend on its
    /// arguments, because it finds few rows by keys. PostgreSQL plans it once per connection.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn lookup<T: Row>(&self, sql: &str, args: &[Value]) -> Result<Option<T>, DbError> {
        match self.pools {
            Pools::Postgres(_) => Ok(self.lookup_all(sql, args).await?.into_iter().next()),
            // `optional` passes on one row and nothing after it.
            Pools::Sqlite { .. } => self.optional(sql, args).await,
        }
    }

    /// Returns all rows of a lookup, see [`Db::lookup`]. Its plan must not depend on a limit that
    /// is an argument.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn lookup_all<T: Row>(&self, sql: &str, args: &[Value]) -> Result<Vec<T>, DbError> {
        self.fetch_all(sql, args, QueryKind::Lookup).await?.read()
    }

    /// Returns all rows of a page of a search, which PostgreSQL plans once per connection, like a
    /// lookup. Its plan must not depend on limits that are arguments, or on how many rows match.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn page<T: Row>(&self, sql: &str, args: &[Value]) -> Result<Vec<T>, DbError> {
        self.fetch_all(sql, args, QueryKind::Page).await?.read()
    }

    /// Returns all rows of a query. The caller must limit their number.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn all<T: Row>(&self, sql: &str, args: &[Value]) -> Result<Vec<T>, DbError> {
        self.fetch_all(sql, args, QueryKind::Any).await?.read()
    }

    /// Runs one write in its own transaction. Returns the number of affected rows.
    ///
    /// # Errors
    /// [`DbError::Violation`] if it violates a constraint, or if the database fails.
    pub fn execute<'a>(&'a self, sql: &'a str, args: &'a [Value]) -> BoxFuture<'a, Result<u64, DbError>> {
        Box::pin(async move {
            // A single statement is a transaction by itself, which saves the round trips to begin
            // and end one.
            self.count();
            let counted = self.counted_write().await?;
            let run = async {
                Ok(match &self.pools {
                    Pools::Postgres(connections) => {
                        let mut lease = connections.lease().await?;
                        let rows = postgres(sql, args).execute(&mut *lease).await?.rows_affected();
                        connections.put_back(lease);
                        rows
                    }
                    Pools::Sqlite { write, .. } => {
                        let mut lease = write.lease().await?;
                        let text = format!("{SQLITE_SYNCED}; {sql}");
                        let rows = sqlite_changes(lease.connection(), &text, args).await;
                        // A failed statement leaves no transaction open.
                        lease.put_back();
                        rows?
                    }
                })
            };
            let rows = measured(self.pick(POSTGRES, SQLITE), sql, run).await?;
            if let Some(counted) = counted {
                counted.add(bytes_of(args));
            }
            Ok(rows)
        })
    }

    /// Runs `statements` in one relaxed transaction ([`Db::begin_relaxed`]) and returns the rows of
    /// the last one; only that one may return rows. Each statement comes with the number of leading
    /// `args` that it uses.
    ///
    /// On SQLite they are sent together with the begin and the commit. That is one thread switch
    /// instead of two per statement, and the single writer waits for no task in between.
    ///
    /// # Errors
    /// [`DbError::Violation`] if a statement violates a constraint, or if the database fails.
    /// Nothing is committed then.
    pub async fn all_relaxed<T: Row>(&self, statements: &[(&str, usize)], args: &[Value]) -> Result<Vec<T>, DbError> {
        self.fetch_relaxed(statements, args).await?.read()
    }

    fn fetch_relaxed<'a>(
        &'a self,
        statements: &'a [(&'a str, usize)],
        args: &'a [Value],
    ) -> BoxFuture<'a, Result<RawRows, DbError>> {
        Box::pin(async move {
            let Pools::Sqlite { write, .. } = &self.pools else {
                let mut tx = self.begin_relaxed().await?;
                let mut rows = RawRows::Postgres(Vec::new());
                for (sql, count) in statements {
                    rows = tx.fetch_all(sql, args.get(..*count).unwrap_or(args)).await?;
                }
                tx.commit().await?;
                return Ok(rows);
            };
            self.count();
            let counted = self.counted_write().await?;
            let mut script = String::new();
            for (sql, _) in statements {
                script.push_str(sql);
                script.push_str("; ");
            }
            script.push_str("COMMIT");
            let run = async {
                let mut tx = write.begin(SQLITE_RELAXED).await?;
                let (connection, text, args) = tx.prepare(&script, args)?;
                let rows = sqlite(&text, &args).fetch_all(connection).await?;
                tx.ended();
                Ok(RawRows::Sqlite(rows))
            };
            let rows = measured(SQLITE, &script, run).await?;
            if let Some(counted) = counted {
                counted.add(bytes_of(args));
            }
            Ok(rows)
        })
    }

    fn fetch_optional<'a>(&'a self, sql: &'a str, args: &'a [Value]) -> BoxFuture<'a, Result<Option<RawRow>, DbError>> {
        self.count();
        let run = async move {
            Ok(match &self.pools {
                Pools::Postgres(connections) => {
                    read_postgres!(connections, fetch_optional, sql, args).map(RawRow::Postgres)
                }
                Pools::Sqlite { read, .. } => read_sqlite!(read, fetch_optional, sql, args).map(RawRow::Sqlite),
            })
        };
        Box::pin(measured(self.pick(POSTGRES, SQLITE), sql, run))
    }

    fn fetch_all<'a>(
        &'a self,
        sql: &'a str,
        args: &'a [Value],
        kind: QueryKind,
    ) -> BoxFuture<'a, Result<RawRows, DbError>> {
        self.count();
        let run = async move {
            Ok(match &self.pools {
                Pools::Postgres(connections) => {
                    let connections = match kind {
                        QueryKind::Any => connections,
                        QueryKind::Lookup => connections.lookups(),
                        QueryKind::Page => connections.pages(),
                    };
                    RawRows::Postgres(read_postgres!(connections, fetch_all, sql, args))
                }
                Pools::Sqlite { read, .. } => RawRows::Sqlite(read_sqlite!(read, fetch_all, sql, args)),
            })
        };
        Box::pin(measured(self.pick(POSTGRES, SQLITE), sql, run))
    }

    /// Checks that the database responds.
    ///
    /// # Errors
    /// If it does not.
    pub fn ping(&self) -> BoxFuture<'_, Result<(), DbError>> {
        Box::pin(async move { self.one::<(i64,)>("SELECT CAST(1 AS BIGINT)", &[]).await.map(|_| ()) })
    }

    fn count(&self) {
        self.statements.fetch_add(1, Ordering::Relaxed);
        count_statement("statement");
    }
}

impl Tx {
    /// Returns the single row of a query or `RETURNING` clause.
    ///
    /// # Errors
    /// If there is no row, the statement violates a constraint, or the database fails.
    pub async fn one<T: Row>(&mut self, sql: &str, args: &[Value]) -> Result<T, DbError> {
        self.fetch_optional(sql, args).await?.ok_or(sqlx::Error::RowNotFound)?.read()
    }

    /// Returns the first row of a query or `RETURNING` clause, if any.
    ///
    /// # Errors
    /// [`DbError::Violation`] if the statement violates a constraint, or if the database fails.
    pub async fn optional<T: Row>(&mut self, sql: &str, args: &[Value]) -> Result<Option<T>, DbError> {
        self.fetch_optional(sql, args).await?.map(|row| row.read()).transpose()
    }

    /// Returns all rows of a query or `RETURNING` clause.
    ///
    /// # Errors
    /// [`DbError::Violation`] if the statement violates a constraint, or if the database fails.
    pub async fn all<T: Row>(&mut self, sql: &str, args: &[Value]) -> Result<Vec<T>, DbError> {
        self.fetch_all(sql, args).await?.read()
    }

    /// Runs a statement. Returns the number of affected rows.
    ///
    /// # Errors
    /// [`DbError::Violation`] if the statement violates a constraint, or if the database fails.
    pub fn execute<'a>(&'a mut self, sql: &'a str, args: &'a [Value]) -> BoxFuture<'a, Result<u64, DbError>> {
        self.count();
        self.note(args);
        let system = self.pick(POSTGRES, SQLITE);
        let run = async move {
            Ok(match &mut self.kind {
                TxKind::Postgres(tx) => postgres(sql, args).execute(&mut **tx).await?.rows_affected(),
                TxKind::Sqlite(tx) => {
                    let (connection, text, args) = tx.prepare(sql, args)?;
                    sqlite_changes(connection, &text, &args).await?
                }
            })
        };
        Box::pin(measured(system, sql, run))
    }

    /// Runs a statement whose result the caller does not need. It must return no rows. On SQLite it
    /// is sent together with the next statement or the commit, which saves a thread switch.
    ///
    /// # Errors
    /// As [`Tx::execute`], at the latest from the commit.
    pub fn execute_later<'a>(&'a mut self, sql: &'a str, args: &'a [Value]) -> BoxFuture<'a, Result<(), DbError>> {
        Box::pin(async move {
            if let TxKind::Sqlite(tx) = &mut self.kind {
                tx.add(sql, args);
                self.note(args);
                self.count();
                return Ok(());
            }
            self.execute(sql, args).await.map(drop)
        })
    }

    /// Runs a last statement, commits, and returns the statement's rows. On SQLite both are sent
    /// together.
    ///
    /// # Errors
    /// As [`Tx::execute`] and [`Tx::commit`].
    pub async fn commit_returning<T: Row>(self, sql: &str, args: &[Value]) -> Result<Vec<T>, DbError> {
        self.fetch_and_commit(sql, args).await?.read()
    }

    fn fetch_and_commit<'a>(mut self, sql: &'a str, args: &'a [Value]) -> BoxFuture<'a, Result<RawRows, DbError>> {
        Box::pin(async move {
            self.require_commit()?;
            if let TxKind::Sqlite(tx) = &mut self.kind {
                tx.add(sql, args);
                count_statement("transaction");
                self.note(args);
                let rows = self.fetch_all(COMMIT, &[]).await?;
                self.committed();
                return Ok(rows);
            }
            let rows = self.fetch_all(sql, args).await?;
            self.commit().await?;
            Ok(rows)
        })
    }

    fn fetch_optional<'a>(
        &'a mut self,
        sql: &'a str,
        args: &'a [Value],
    ) -> BoxFuture<'a, Result<Option<RawRow>, DbError>> {
        self.count();
        self.note(args);
        let system = self.pick(POSTGRES, SQLITE);
        let run = async move {
            Ok(match &mut self.kind {
                TxKind::Postgres(tx) => postgres(sql, args).fetch_optional(&mut **tx).await?.map(RawRow::Postgres),
                TxKind::Sqlite(tx) => {
                    let (connection, text, args) = tx.prepare(sql, args)?;
                    sqlite(&text, &args).fetch_optional(connection).await?.map(RawRow::Sqlite)
                }
            })
        };
        Box::pin(measured(system, sql, run))
    }

    fn fetch_all<'a>(&'a mut self, sql: &'a str, args: &'a [Value]) -> BoxFuture<'a, Result<RawRows, DbError>> {
        self.count();
        self.note(args);
        let system = self.pick(POSTGRES, SQLITE);
        let run = async move {
            Ok(match &mut self.kind {
                TxKind::Postgres(tx) => RawRows::Postgres(postgres(sql, args).fetch_all(&mut **tx).await?),
                TxKind::Sqlite(tx) => {
                    let (connection, text, args) = tx.prepare(sql, args)?;
                    RawRows::Sqlite(sqlite(&text, &args).fetch_all(connection).await?)
                }
            })
        };
        Box::pin(measured(system, sql, run))
    }

    fn count(&self) {
        self.statements.fetch_add(1, Ordering::Relaxed);
        count_statement("statement");
    }
}
