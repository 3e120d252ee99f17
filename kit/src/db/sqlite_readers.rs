//! The connections on which statements read from a SQLite database: a stack in front of sqlx's pool.
//!
//! The pool pings each connection that is returned to it, in a task of its own: the thread of the connection changes places with those of
//! requests once more for each statement. A connection whose statement ended well needs no ping: it goes to the stack, and the next
//! statement takes the one that was used last. All others go back to the pool: after a failure, and after a caller that was cancelled.
//!
//! Not here: running statements, which is in `query`, and the connection that writes.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::future::BoxFuture;
use sqlx::pool::PoolConnection;
use sqlx::{Sqlite, SqliteConnection, SqlitePool};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::measure::{SQLITE, measured_wait};

/// Longest time that a caller waits for a free connection.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(10);

/// The connections to one file. Clones share them.
#[derive(Clone)]
pub(super) struct SqliteReaders(Arc<Inner>);

struct Inner {
    pool: SqlitePool,
    /// As many as the pool may have connections. A caller with a permit waits for nobody else.
    permits: Semaphore,
    /// Connections between two statements, the one used last at the end.
    idle: Mutex<Vec<PoolConnection<Sqlite>>>,
}

/// A connection for one statement. Dropping it returns the connection to the pool, which pings it.
pub(super) struct ReaderLease<'a> {
    connection: PoolConnection<Sqlite>,
    permit: SemaphorePermit<'a>,
}

impl std::fmt::Debug for SqliteReaders {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("SqliteReaders").field("pool", &self.0.pool).finish_non_exhaustive()
    }
}

impl SqliteReaders {
    /// Takes connections from `pool`, which nothing else may use.
    pub(super) fn new(pool: SqlitePool) -> Self {
        let permits = usize::try_from(pool.options().get_max_connections()).unwrap_or(usize::MAX);
        let permits = Semaphore::new(permits.min(Semaphore::MAX_PERMITS));
        Self(Arc::new(Inner { pool, permits, idle: Mutex::default() }))
    }

    /// Returns the number of open connections, and how many of them are in use.
    pub(super) fn counts(&self) -> (u32, u32) {
        let open = self.0.pool.size();
        let waiting = u32::try_from(self.0.pool.num_idle() + self.idle().len()).unwrap_or(u32::MAX);
        (open, open.saturating_sub(waiting))
    }

    /// Takes a free connection, or opens one.
    ///
    /// # Errors
    /// When none is free in time, or the file cannot be opened.
    pub(super) async fn lease(&self) -> Result<ReaderLease<'_>, sqlx::Error> {
        measured_wait(SQLITE, self.take()).await
    }

    async fn take(&self) -> Result<ReaderLease<'_>, sqlx::Error> {
        let permit = tokio::time::timeout(ACQUIRE_TIMEOUT, self.0.permits.acquire()).await;
        let permit = permit.map_err(|_| sqlx::Error::PoolTimedOut)?.map_err(|_| sqlx::Error::PoolClosed)?;
        let newest = self.idle().pop();
        let connection = match newest {
            Some(connection) => connection,
            None => self.0.pool.acquire().await?,
        };
        Ok(ReaderLease { connection, permit })
    }

    /// Keeps a connection whose statement ended well for the next one.
    pub(super) fn put_back(&self, lease: ReaderLease<'_>) {
        let ReaderLease { connection, permit } = lease;
        let mut idle = self.idle();
        // The pool is marked as closed before `close` empties the stack.
        if self.0.pool.is_closed() {
            drop(idle);
            drop(connection);
        } else {
            idle.push(connection);
            drop(idle);
        }
        drop(permit);
    }

    /// Closes all connections; waits for those in use.
    pub(super) fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let closed = self.0.pool.close();
            drop(std::mem::take(&mut *self.idle()));
            closed.await;
        })
    }

    fn idle(&self) -> MutexGuard<'_, Vec<PoolConnection<Sqlite>>> {
        self.0.idle.lock().expect("nothing panics while it is held")
    }
}

impl ReaderLease<'_> {
    /// Returns the connection, for one statement.
    pub(super) fn connection(&mut self) -> &mut SqliteConnection {
        &mut self.connection
    }
}

impl Drop for Inner {
    /// Closes the connections of the stack. Returning them to the pool would need a runtime.
    fn drop(&mut self) {
        let idle = std::mem::take(self.idle.get_mut().expect("nothing panics while it is held"));
        idle.into_iter().for_each(|connection| drop(connection.detach()));
    }
}

#[cfg(test)]
mod tests;
