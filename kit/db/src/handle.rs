//! The database handle [`Db`] and its transactions [`Tx`]: opening, connections, and kinds of
//! commit. `run` has the statements.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ferrite_core::Secret;
use ferrite_rpc::version;
use ferrite_rpc::write_limit::{CountedWrite, WriteLimit};
use futures_util::future::BoxFuture;
use prost::Message;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions, PgRow};
use sqlx::sqlite::{
    SqliteAutoVacuum, SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteRow, SqliteSynchronous,
};
use sqlx::{Connection, Executor, FromRow, Postgres, Transaction};
use tokio::sync::OwnedSemaphorePermit;

use super::connections::PgConnections;
use super::data_version::{DataVersion, DataVersionReader};
use super::error::DbError;
use super::lock;
use super::measure::{POSTGRES, SQLITE, measured};
use super::sqlite_connections::{SqliteConnections, SqliteTx, is_rolled_back};
use super::value::{Value, bytes_of};

/// Limit for waiting for another process that writes to the same SQLite file.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_SQLITE_READERS: u32 = 8;
/// Idle time after which a PostgreSQL connection is pinged before use.
const PING_AFTER_IDLE: Duration = Duration::from_secs(1);
/// Maximum size of the write-ahead log file after a checkpoint. A large transaction exceeds it for
/// a while.
const MAX_IDLE_LOG_BYTES: &str = "67108864";
/// Prepared statements per PostgreSQL connection and of the SQLite writer. No service has this many
/// statements.
const MAX_PREPARED_STATEMENTS: usize = 400;
/// Statements that begin a transaction. Each sets `synchronous`, because that setting outlives the
/// transaction.
const SQLITE_DURABLE: &str = "PRAGMA synchronous = FULL; BEGIN IMMEDIATE";
pub(super) const SQLITE_RELAXED: &str = "PRAGMA synchronous = NORMAL; BEGIN IMMEDIATE";
/// Sent before a single statement that must be durable.
pub(super) const SQLITE_SYNCED: &str = "PRAGMA synchronous = FULL";
const POSTGRES_DURABLE: &str = "BEGIN";
const POSTGRES_RELAXED: &str = "BEGIN; SET LOCAL synchronous_commit TO OFF";

/// Settings of a PostgreSQL session. JIT and parallel workers cost more than any of our statements
/// takes. The timeout releases the locks of a process that hangs or whose machine is gone.
const POSTGRES_SESSION: &str =
    "SET jit = off; SET max_parallel_workers_per_gather = 0; SET idle_in_transaction_session_timeout = '15s'";
const POSTGRES_PLANNED_ONCE_SESSION: &str =
    "SET jit = off; SET max_parallel_workers_per_gather = 0; SET plan_cache_mode = force_generic_plan";

/// Counts a statement in the metrics. `kind` is `statement`, or `transaction` for one that begins
/// or ends a transaction.
pub(super) fn count_statement(kind: &'static str) {
    metrics::counter!("ferrite_db_statements_total", "kind" => kind).increment(1);
}

/// Returns the options of a pool whose connections begin with `session`.
fn postgres_pool(max_connections: u32, session: &'static str) -> PgPoolOptions {
    let pool = PgPoolOptions::new().max_connections(max_connections).acquire_timeout(ACQUIRE_TIMEOUT);
    // A recently used connection is not pinged: that would double the round trips of a query.
    let pool = pool.test_before_acquire(false).before_acquire(|connection, used| {
        Box::pin(async move {
            if used.idle_for >= PING_AFTER_IDLE {
                connection.ping().await?;
            }
            Ok(true)
        })
    });
    pool.after_connect(move |connection, _| {
        Box::pin(async move {
            connection.execute(session).await?;
            Ok(())
        })
    })
}

/// A row that both drivers can decode. Implemented for every type that derives [`FromRow`].
pub trait Row: for<'r> FromRow<'r, PgRow> + for<'r> FromRow<'r, SqliteRow> + Send + Unpin + 'static {}

impl<T> Row for T where T: for<'r> FromRow<'r, PgRow> + for<'r> FromRow<'r, SqliteRow> + Send + Unpin + 'static {}

/// A PostgreSQL or SQLite database. Clones share its connections.
#[derive(Clone, Debug)]
pub struct Db {
    pub(super) pools: Pools,
    pub(super) statements: Arc<AtomicU64>,
    /// Limit on the writes of requests, if any.
    write_limit: Option<WriteLimit>,
}

#[derive(Clone, Debug)]
pub(super) enum Pools {
    Postgres(PgConnections),
    Sqlite { version: DataVersionReader, read: SqliteConnections, write: SqliteConnections, file: PathBuf },
}

/// A write transaction. Rolled back if dropped without [`Tx::commit`].
pub struct Tx {
    pub(super) kind: TxKind,
    pub(super) statements: Arc<AtomicU64>,
    /// The write of the request, and the bytes of its values so far.
    write: Option<CountedWrite>,
    written_bytes: u64,
    /// Right to a PostgreSQL connection; released after the connection.
    _permit: Option<OwnedSemaphorePermit>,
}

pub(super) enum TxKind {
    Postgres(Transaction<'static, Postgres>),
    Sqlite(SqliteTx),
}

impl Db {
    /// Opens `postgres://…` or `sqlite://PATH`. Creates a missing SQLite file; its folder must
    /// exist.
    ///
    /// # Errors
    /// If the URL is malformed or has another scheme, or the database is unreachable.
    pub fn open(url: &Secret, max_connections: u32) -> BoxFuture<'_, Result<Self, DbError>> {
        Box::pin(Self::connect(url, max_connections))
    }

    async fn connect(url: &Secret, max_connections: u32) -> Result<Self, DbError> {
        let text = url.expose();
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            let options = PgConnectOptions::from_str(text).map_err(|_| DbError::Url)?;
            let options = options.statement_cache_capacity(MAX_PREPARED_STATEMENTS);
            let shares = [PgConnections::lookup_share(max_connections), PgConnections::page_share(max_connections)];
            let rest = max_connections - shares.iter().sum::<u32>();
            let pool = postgres_pool(rest, POSTGRES_SESSION).connect_with(options.clone()).await?;
            let [lookups, pages] = shares.map(|share| {
                let pool = || postgres_pool(share, POSTGRES_PLANNED_ONCE_SESSION).connect_lazy_with(options.clone());
                (share > 0).then(pool)
            });
            return Ok(Self::with_pools(Pools::Postgres(PgConnections::new(pool, lookups, pages))));
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
            .foreign_keys(true)
            .pragma("journal_size_limit", MAX_IDLE_LOG_BYTES);
        let file = options.get_filename().to_owned();
        // Writer and readers have separate pools, and each connection to an in-memory database
        // would see its own database.
        if file.as_os_str().is_empty() || url.contains(":memory:") || url.contains("mode=memory") {
            return Err(DbError::Url);
        }
        // A single connection writes: SQLite allows one writer per file, and the pool's queue is
        // fairer than SQLite's busy loop. Connections are not pinged, because a connection to a
        // file does not break.
        let pool = || {
            let pool = SqlitePoolOptions::new().acquire_timeout(ACQUIRE_TIMEOUT).test_before_acquire(false);
            pool.max_lifetime(None).idle_timeout(None)
        };
        let _lock = lock::exclusive(&file).await?;
        let write = pool().max_connections(1).after_release(|connection, _| Box::pin(is_rolled_back(connection)));
        // Takes effect on new files only; others are converted by `VACUUM`.
        let writer = options.clone().statement_cache_capacity(MAX_PREPARED_STATEMENTS);
        let write = write.connect_with(writer.auto_vacuum(SqliteAutoVacuum::Incremental)).await?;
        let read = pool().max_connections(MAX_SQLITE_READERS).connect_with(options.pragma("query_only", "on")).await?;
        let [read, write] = [read, write].map(SqliteConnections::new);
        Ok(Self::with_pools(Pools::Sqlite { version: DataVersionReader::open(&file), read, write, file }))
    }

    fn with_pools(pools: Pools) -> Self {
        Self { pools, statements: Arc::default(), write_limit: None }
    }

    /// Returns this handle with a limit on the writes of requests.
    #[must_use]
    pub fn with_write_limit(self, limit: WriteLimit) -> Self {
        Self { write_limit: Some(limit), ..self }
    }

    /// Counts the current request as a write, if it is not counted yet. Transactions do this
    /// themselves: call it before effects outside the database that precede the first transaction,
    /// such as a call of a git store, so that a refusal changes nothing.
    ///
    /// # Errors
    /// [`DbError::Refused`] if the account has reached its write limit.
    pub async fn count_write(&self) -> Result<(), DbError> {
        require_room(self.begun_write().await?.as_ref())
    }

    /// Counts the current request for a statement that commits by itself, and checks that it may
    /// commit.
    pub(super) async fn counted_write(&self) -> Result<Option<CountedWrite>, DbError> {
        let write = self.begun_write().await?;
        require_commit(write.as_ref())?;
        Ok(write)
    }

    /// Counts the current request for a transaction, whose commit may still be refused.
    async fn begun_write(&self) -> Result<Option<CountedWrite>, DbError> {
        match &self.write_limit {
            Some(limit) => Ok(limit.count().await?),
            None => Ok(None),
        }
    }

    /// Returns the number of statements run so far by this handle, its clones and their
    /// transactions, not counting those that begin or end a transaction. Statements sent together
    /// count as one. Tests assert on it.
    #[must_use]
    pub fn statements(&self) -> u64 {
        self.statements.load(Ordering::Relaxed)
    }

    /// Returns the first value on PostgreSQL, the second on SQLite.
    #[must_use]
    pub fn pick<T>(&self, postgres: T, sqlite: T) -> T {
        match self.pools {
            Pools::Postgres(_) => postgres,
            Pools::Sqlite { .. } => sqlite,
        }
    }

    /// Begins a write transaction. On SQLite it holds the single writer from the start (`BEGIN
    /// IMMEDIATE`, sent with the first statement), so rows that it reads cannot change before it
    /// writes.
    ///
    /// # Errors
    /// If no connection is free in time, the database is unreachable, or the account has reached
    /// its write limit.
    pub fn begin(&self) -> BoxFuture<'_, Result<Tx, DbError>> {
        Box::pin(async move { self.begin_with(POSTGRES_DURABLE, SQLITE_DURABLE).await })
    }

    /// Begins a write transaction whose commit does not wait for the disk. A crash of the machine
    /// (not of the process) may undo it together with later relaxed transactions. For leases and
    /// marks that are rewritten if lost.
    ///
    /// # Errors
    /// As [`Db::begin`].
    pub fn begin_relaxed(&self) -> BoxFuture<'_, Result<Tx, DbError>> {
        Box::pin(async move { self.begin_with(POSTGRES_RELAXED, SQLITE_RELAXED).await })
    }

    async fn begin_with(&self, postgres: &'static str, sqlite: &'static str) -> Result<Tx, DbError> {
        count_statement("transaction");
        // Before taking a connection: on SQLite there is one writer, and Redis may be slow.
        let write = self.begun_write().await?;
        let (kind, permit) = match &self.pools {
            Pools::Postgres(connections) => {
                let (transaction, permit) = connections.begin(postgres).await?;
                (TxKind::Postgres(transaction), Some(permit))
            }
            Pools::Sqlite { write, .. } => (TxKind::Sqlite(write.begin(sqlite).await?), None),
        };
        Ok(Tx { kind, statements: Arc::clone(&self.statements), write, written_bytes: 0, _permit: permit })
    }

    /// Returns the number of open connections and of those in use.
    #[must_use]
    pub fn connections(&self) -> (u32, u32) {
        match &self.pools {
            Pools::Postgres(connections) => connections.counts(),
            Pools::Sqlite { read, write, .. } => {
                let ((readers, reading), (writers, writing)) = (read.counts(), write.counts());
                (readers + writers, reading + writing)
            }
        }
    }

    pub(super) fn max_connections(&self) -> u32 {
        match &self.pools {
            Pools::Postgres(connections) => connections.max_connections(),
            Pools::Sqlite { .. } => MAX_SQLITE_READERS + 1,
        }
    }

    /// Returns the data version of a SQLite database; `None` on PostgreSQL, and if it cannot be
    /// read.
    pub(super) fn data_version(&self) -> Option<DataVersion> {
        match &self.pools {
            Pools::Postgres(_) => None,
            Pools::Sqlite { version, .. } => version.read(),
        }
    }

    /// Closes all connections.
    pub fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            match &self.pools {
                Pools::Postgres(connections) => connections.close().await,
                Pools::Sqlite { version, read, write, .. } => {
                    version.close();
                    read.close().await;
                    write.close().await;
                }
            }
        })
    }
}

/// Checks that a write may commit: it is within the limit, and the precondition of its request was
/// checked.
fn require_commit(write: Option<&CountedWrite>) -> Result<(), DbError> {
    version::require_checked()?;
    require_room(write)
}

fn require_room(write: Option<&CountedWrite>) -> Result<(), DbError> {
    match write {
        Some(write) => Ok(write.require_room()?),
        None => Ok(()),
    }
}

impl Tx {
    /// Returns the first value on PostgreSQL, the second on SQLite.
    #[must_use]
    pub fn pick<T>(&self, postgres: T, sqlite: T) -> T {
        match self.kind {
            TxKind::Postgres(_) => postgres,
            TxKind::Sqlite(_) => sqlite,
        }
    }

    /// Commits the transaction.
    ///
    /// # Errors
    /// If the database does not confirm the commit; it may have happened or not.
    /// [`DbError::Refused`] if the request is [refused at its
    /// commits](ferrite_core::writer::refuse_at_commit), and [`DbError::Precondition`] if its
    /// precondition was not checked: nothing was committed then.
    pub fn commit(self) -> BoxFuture<'static, Result<(), DbError>> {
        count_statement("transaction");
        let system = self.pick(POSTGRES, SQLITE);
        Box::pin(async move {
            self.require_commit()?;
            let commit = async move {
                match self.kind {
                    TxKind::Postgres(tx) => tx.commit().await?,
                    TxKind::Sqlite(tx) => tx.commit().await?,
                }
                if let Some(write) = self.write {
                    write.add(self.written_bytes);
                }
                Ok(())
            };
            measured(system, "COMMIT", commit).await
        })
    }

    /// Checks the precondition of the current request, if any, against the resource as this
    /// transaction sees it; `None` means that it does not exist. `resource` is the message that the
    /// read of the resource returns. The transaction must hold the lock of the resource.
    ///
    /// # Errors
    /// [`DbError::Precondition`] if it does not hold.
    pub fn require_version(&self, resource: Option<&impl Message>) -> Result<(), DbError> {
        Ok(version::require(resource)?)
    }

    pub(super) fn require_commit(&self) -> Result<(), DbError> {
        require_commit(self.write.as_ref())
    }

    /// Adds up the bytes of a statement's values.
    pub(super) fn note(&mut self, args: &[Value]) {
        if self.write.is_some() {
            self.written_bytes += bytes_of(args);
        }
    }

    /// Counts the bytes of a committed transaction.
    pub(super) fn committed(self) {
        if let Some(write) = self.write {
            write.add(self.written_bytes);
        }
        if let TxKind::Sqlite(tx) = self.kind {
            tx.ended();
        }
    }

    /// Rolls back and waits for it. Dropping the transaction does the same without waiting.
    ///
    /// # Errors
    /// If the database is unreachable. Nothing is committed then, either.
    pub fn rollback(self) -> BoxFuture<'static, Result<(), DbError>> {
        count_statement("transaction");
        Box::pin(async move {
            match self.kind {
                TxKind::Postgres(tx) => tx.rollback().await?,
                TxKind::Sqlite(tx) => tx.rollback().await?,
            }
            Ok(())
        })
    }
}
