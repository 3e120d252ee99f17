use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions, PgRow};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteRow, SqliteSynchronous};
use sqlx::{Connection, FromRow, PgPool, Postgres, Sqlite, SqliteConnection, SqlitePool, Transaction};

use super::error::DbError;
use super::lock;
use super::wal_index::{WalIndex, WalState};
use crate::secret::Secret;

/// How long a writer waits for another process that holds a SQLite file.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(10);
const SQLITE_READERS: u32 = 8;
/// A connection to PostgreSQL that was unused for longer is tried before it is used.
const TRUSTED: Duration = Duration::from_secs(1);
/// The connection keeps what the transaction before it set: each says what it needs.
const SQLITE_DURABLE: &str = "PRAGMA synchronous = FULL; BEGIN IMMEDIATE";
const SQLITE_RELAXED: &str = "PRAGMA synchronous = NORMAL; BEGIN IMMEDIATE";
const POSTGRES_RELAXED: &str = "SET LOCAL synchronous_commit TO OFF";

/// A row that both drivers can read; implemented by everything that derives [`FromRow`].
pub trait Row: for<'r> FromRow<'r, PgRow> + for<'r> FromRow<'r, SqliteRow> + Send + Unpin + 'static {}

impl<T> Row for T where T: for<'r> FromRow<'r, PgRow> + for<'r> FromRow<'r, SqliteRow> + Send + Unpin + 'static {}

/// A database, chosen by the scheme of its URL.
#[derive(Clone, Debug)]
pub struct Db {
    pub(super) pools: Pools,
    pub(super) statements: Arc<AtomicU64>,
}

#[derive(Clone, Debug)]
pub(super) enum Pools {
    Postgres(PgPool),
    Sqlite { read: SqlitePool, write: SqlitePool, file: PathBuf, index: Option<WalIndex> },
}

/// A transaction. Rolled back when dropped without [`Tx::commit`].
#[derive(Debug)]
pub struct Tx {
    pub(super) kind: TxKind,
    pub(super) statements: Arc<AtomicU64>,
}

#[derive(Debug)]
pub(super) enum TxKind {
    Postgres(Transaction<'static, Postgres>),
    Sqlite(Transaction<'static, Sqlite>),
}

impl Db {
    /// Opens `postgres://…` or `sqlite://PATH`. A SQLite file is made if it is missing; its folder is not.
    ///
    /// # Errors
    /// When the URL has another scheme or does not parse, or the database cannot be reached.
    pub fn open(url: &Secret, max_connections: u32) -> BoxFuture<'_, Result<Self, DbError>> {
        Box::pin(Self::connect(url, max_connections))
    }

    async fn connect(url: &Secret, max_connections: u32) -> Result<Self, DbError> {
        let text = url.expose();
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            let options = PgConnectOptions::from_str(text).map_err(|_| DbError::Url)?;
            let pool = PgPoolOptions::new().max_connections(max_connections).acquire_timeout(ACQUIRE_TIMEOUT);
            // One that was used a moment ago is not asked first whether it lives: that would double each query's way.
            let pool = pool.test_before_acquire(false).before_acquire(|connection, used| {
                Box::pin(async move {
                    if used.idle_for >= TRUSTED {
                        connection.ping().await?;
                    }
                    Ok(true)
                })
            });
            let pool = pool.connect_with(options).await?;
            return Ok(Self::over(Pools::Postgres(pool)));
        }
        if text.starts_with("sqlite://") {
            return Self::open_sqlite(text).await;
        }
        Err(DbError::Url)
    }

    async fn open_sqlite(url: &str) -> Result<Self, DbError> {
        let options = SqliteConnectOptions::from_str(url)
            .map_err(|_| DbError::Url)?
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(BUSY_TIMEOUT)
            .foreign_keys(true);
        let file = options.get_filename().to_owned();
        // Readers and the writer are pools of their own: they would not see one database in memory.
        if file.as_os_str().is_empty() || url.contains(":memory:") || url.contains("mode=memory") {
            return Err(DbError::Url);
        }
        // One writer for the process: SQLite has one per file, and a queue in memory is fairer than its busy loop.
        // No connection is tried before it is used: a file does not go away.
        let pool = || {
            let pool = SqlitePoolOptions::new().acquire_timeout(ACQUIRE_TIMEOUT).test_before_acquire(false);
            pool.max_lifetime(None).idle_timeout(None)
        };
        let _lock = lock::exclusive(&file).await?;
        let write = pool().max_connections(1).after_release(|connection, _| Box::pin(is_usable(connection)));
        let write = write.connect_with(options.clone()).await?;
        let read = pool().max_connections(SQLITE_READERS).connect_with(options.pragma("query_only", "on")).await?;
        let (mode,): (String,) = sqlx::query_as("PRAGMA journal_mode").fetch_one(&read).await?;
        let index = if mode == "wal" { WalIndex::open(&file) } else { None };
        Ok(Self::over(Pools::Sqlite { read, write, file, index }))
    }

    fn over(pools: Pools) -> Self {
        Self { pools, statements: Arc::default() }
    }

    /// How many statements this handle, its clones and their transactions have run; starting and ending transactions not counted.
    /// For tests that hold a call to a fixed number of them.
    #[must_use]
    pub fn statements(&self) -> u64 {
        self.statements.load(Ordering::Relaxed)
    }

    /// The first of two values on PostgreSQL, the second on SQLite.
    #[must_use]
    pub fn pick<T>(&self, postgres: T, sqlite: T) -> T {
        match self.pools {
            Pools::Postgres(_) => postgres,
            Pools::Sqlite { .. } => sqlite,
        }
    }

    /// Starts a write transaction. On SQLite it holds the single writer from the start (`BEGIN IMMEDIATE`), so that what it
    /// reads cannot change before it writes.
    ///
    /// # Errors
    /// When no connection is free in time, or the database is gone.
    pub fn begin(&self) -> BoxFuture<'_, Result<Tx, DbError>> {
        Box::pin(async move {
            let kind = match &self.pools {
                Pools::Postgres(pool) => TxKind::Postgres(pool.begin().await?),
                Pools::Sqlite { write, .. } => TxKind::Sqlite(write.begin_with(SQLITE_DURABLE).await?),
            };
            Ok(Tx { kind, statements: Arc::clone(&self.statements) })
        })
    }

    /// Starts a write transaction that need not be on disk when it commits: a crash of the machine, not one of the process, may
    /// undo it and those after it that were relaxed as well. For leases and marks that are made again if they are lost.
    ///
    /// # Errors
    /// As those of [`Db::begin`].
    pub fn begin_relaxed(&self) -> BoxFuture<'_, Result<Tx, DbError>> {
        Box::pin(async move {
            let kind = match &self.pools {
                Pools::Postgres(pool) => {
                    let mut tx = pool.begin().await?;
                    sqlx::query(POSTGRES_RELAXED).execute(&mut *tx).await?;
                    TxKind::Postgres(tx)
                }
                Pools::Sqlite { write, .. } => TxKind::Sqlite(write.begin_with(SQLITE_RELAXED).await?),
            };
            Ok(Tx { kind, statements: Arc::clone(&self.statements) })
        })
    }

    /// Returns the state of a SQLite database; `None` on PostgreSQL, and when the state cannot be read.
    pub(super) fn wal_state(&self) -> Option<WalState> {
        match &self.pools {
            Pools::Postgres(_) => None,
            Pools::Sqlite { index, .. } => index.as_ref().and_then(WalIndex::state),
        }
    }

    /// Closes all connections.
    pub fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            match &self.pools {
                Pools::Postgres(pool) => pool.close().await,
                Pools::Sqlite { read, write, .. } => {
                    read.close().await;
                    write.close().await;
                }
            }
        })
    }
}

/// Whether a connection may serve again. When the disk is full, SQLite ends a transaction by itself; the driver then cannot roll it
/// back, takes it for open, and refuses to begin another.
async fn is_usable(connection: &mut SqliteConnection) -> Result<bool, sqlx::Error> {
    if connection.is_in_transaction() {
        // The end of a transaction that was dropped is in line before this.
        connection.ping().await?;
    }
    Ok(!connection.is_in_transaction())
}

impl Tx {
    /// The first of two values on PostgreSQL, the second on SQLite.
    #[must_use]
    pub fn pick<T>(&self, postgres: T, sqlite: T) -> T {
        match self.kind {
            TxKind::Postgres(_) => postgres,
            TxKind::Sqlite(_) => sqlite,
        }
    }

    /// Makes the transaction's writes durable and visible.
    ///
    /// # Errors
    /// When the database did not confirm; the writes may or may not have happened then.
    pub fn commit(self) -> BoxFuture<'static, Result<(), DbError>> {
        Box::pin(async move {
            match self.kind {
                TxKind::Postgres(tx) => tx.commit().await?,
                TxKind::Sqlite(tx) => tx.commit().await?,
            }
            Ok(())
        })
    }

    /// Undoes the transaction. Dropping does the same, later.
    ///
    /// # Errors
    /// When the database is gone; nothing was written then either.
    pub fn rollback(self) -> BoxFuture<'static, Result<(), DbError>> {
        Box::pin(async move {
            match self.kind {
                TxKind::Postgres(tx) => tx.rollback().await?,
                TxKind::Sqlite(tx) => tx.rollback().await?,
            }
            Ok(())
        })
    }
}
