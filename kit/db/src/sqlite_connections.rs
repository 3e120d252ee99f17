//! The connections to a SQLite database: a stack in front of sqlx's pool, one for readers and one
//! for the single writer.
//!
//! The pool pings every returned connection in a separate task, which costs a thread switch per
//! statement. A connection whose statement or transaction succeeded needs no ping: it goes to the
//! stack, and the next caller takes the most recently used one. After a failure or a cancelled
//! caller, the connection goes back to the pool.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use sqlx::pool::PoolConnection;
use sqlx::{Executor, Sqlite, SqliteConnection, SqlitePool};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::measure::{SQLITE, measured_wait};
use super::script::Script;
use super::statement::sqlite_changes;
use super::value::Value;

const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(10);
pub(super) const COMMIT: &str = "COMMIT";
const ROLLBACK: &str = "ROLLBACK";

/// The connections of one pool. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct SqliteConnections(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    pool: SqlitePool,
    /// One permit per connection of the pool, so a caller with a permit never waits.
    permits: Arc<Semaphore>,
    /// Idle connections, the most recently used one last.
    idle: Mutex<Vec<PoolConnection<Sqlite>>>,
}

/// A connection in use. When dropped, the pool gets it back and pings it.
pub(super) struct SqliteLease {
    connection: PoolConnection<Sqlite>,
    /// Released after the connection.
    permit: OwnedSemaphorePermit,
    owner: SqliteConnections,
}

/// A transaction of the writer. The `BEGIN` is sent with the first statement, which saves a thread
/// switch. If dropped before its end, the pool rolls it back with [`is_rolled_back`].
pub(super) struct SqliteTx {
    lease: Option<SqliteLease>,
    /// Statements that are sent with the next one, beginning with the `BEGIN`.
    unsent: Script,
    state: TxState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TxState {
    /// No statement yet.
    New,
    /// Statements wait to be sent; none was sent yet.
    Unsent,
    Begun,
}

/// A connection, with the text and arguments to send for a statement.
pub(super) type Prepared<'c, 'a> = (&'c mut SqliteConnection, Cow<'a, str>, Cow<'a, [Value]>);

impl SqliteConnections {
    /// Takes over `pool`. Nothing else may use it.
    pub(super) fn new(pool: SqlitePool) -> Self {
        let permits = usize::try_from(pool.options().get_max_connections()).unwrap_or(usize::MAX);
        let permits = Arc::new(Semaphore::new(permits.min(Semaphore::MAX_PERMITS)));
        Self(Arc::new(Inner { pool, permits, idle: Mutex::default() }))
    }

    pub(super) fn pool(&self) -> &SqlitePool {
        &self.0.pool
    }

    /// Returns the number of open connections and of those in use.
    pub(super) fn counts(&self) -> (u32, u32) {
        let open = self.0.pool.size();
        let waiting = u32::try_from(self.0.pool.num_idle() + self.0.idle.lock().len()).unwrap_or(u32::MAX);
        (open, open.saturating_sub(waiting))
    }

    /// Takes a free connection or opens one, in the order of the callers. Fails if none is free in
    /// time.
    pub(super) async fn lease(&self) -> Result<SqliteLease, sqlx::Error> {
        measured_wait(SQLITE, self.take()).await
    }

    async fn take(&self) -> Result<SqliteLease, sqlx::Error> {
        let permit = tokio::time::timeout(ACQUIRE_TIMEOUT, Arc::clone(&self.0.permits).acquire_owned()).await;
        let permit = permit.map_err(|_| sqlx::Error::PoolTimedOut)?.map_err(|_| sqlx::Error::PoolClosed)?;
        let newest = self.0.idle.lock().pop();
        let connection = match newest {
            Some(connection) => connection,
            None => self.0.pool.acquire().await?,
        };
        Ok(SqliteLease { connection, permit, owner: self.clone() })
    }

    /// Takes a connection for a transaction that begins with the statements `begin`.
    pub(super) async fn begin(&self, begin: &'static str) -> Result<SqliteTx, sqlx::Error> {
        Ok(SqliteTx { lease: Some(self.lease().await?), unsent: Script::new(begin), state: TxState::New })
    }

    /// Closes all connections. Waits for those in use.
    pub(super) fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let closed = self.0.pool.close();
            drop(std::mem::take(&mut *self.0.idle.lock()));
            closed.await;
        })
    }
}

impl SqliteLease {
    pub(super) fn connection(&mut self) -> &mut SqliteConnection {
        &mut self.connection
    }

    /// Keeps the connection, whose statement or transaction succeeded, for the next caller.
    pub(super) fn put_back(self) {
        let Self { connection, permit, owner } = self;
        let mut idle = owner.0.idle.lock();
        // The pool is marked as closed before `close` empties the stack.
        if owner.0.pool.is_closed() {
            drop(idle);
            drop(connection);
        } else {
            idle.push(connection);
            drop(idle);
        }
        drop(permit);
    }
}

impl SqliteTx {
    /// Queues statements, which must return no rows, until the next one is sent.
    pub(super) fn add(&mut self, sql: &str, args: &[Value]) {
        self.unsent.push(sql, args);
        if self.state == TxState::New {
            self.state = TxState::Unsent;
        }
    }

    /// Returns the connection and what to send for a statement: the queued statements, then this
    /// one.
    pub(super) fn prepare<'a>(&mut self, sql: &'a str, args: &'a [Value]) -> Result<Prepared<'_, 'a>, sqlx::Error> {
        let (text, args) = if self.unsent.is_empty() {
            (Cow::Borrowed(sql), Cow::Borrowed(args))
        } else {
            let mut script = std::mem::take(&mut self.unsent);
            script.push(sql, args);
            let (text, args) = script.into_parts();
            (Cow::Owned(text), Cow::Owned(args))
        };
        let lease = self.lease.as_mut().ok_or(sqlx::Error::PoolClosed)?;
        self.state = TxState::Begun;
        Ok((lease.connection(), text, args))
    }

    /// Sends queued statements and commits. Does nothing if there was no statement.
    pub(super) async fn commit(mut self) -> Result<(), sqlx::Error> {
        if self.state != TxState::New {
            let (connection, text, args) = self.prepare(COMMIT, &[])?;
            sqlite_changes(connection, &text, &args).await?;
        }
        self.ended();
        Ok(())
    }

    pub(super) async fn rollback(mut self) -> Result<(), sqlx::Error> {
        if self.state == TxState::Begun
            && let Some(lease) = &mut self.lease
        {
            lease.connection().execute(ROLLBACK).await?;
        }
        self.ended();
        Ok(())
    }

    /// Returns the connection after a statement that ended the transaction.
    pub(super) fn ended(mut self) {
        if let Some(lease) = self.lease.take() {
            lease.put_back();
        }
    }
}

impl Drop for SqliteTx {
    fn drop(&mut self) {
        if let Some(lease) = self.lease.take_if(|_| self.state != TxState::Begun) {
            lease.put_back();
        }
    }
}

impl Drop for Inner {
    /// Closes the idle connections. Returning them to the pool would need a runtime.
    fn drop(&mut self) {
        let idle = std::mem::take(self.idle.get_mut());
        idle.into_iter().for_each(|connection| drop(connection.detach()));
    }
}

/// Rolls back what was left open on a connection of the writer. Returns whether the pool may keep
/// the connection: not if SQLite has already ended the transaction, as when the disk is full.
pub(super) async fn is_rolled_back(connection: &mut SqliteConnection) -> Result<bool, sqlx::Error> {
    Ok(connection.execute(ROLLBACK).await.is_ok())
}

#[cfg(test)]
mod tests;
