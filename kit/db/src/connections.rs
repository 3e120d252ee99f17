//! The connections to a PostgreSQL database: a stack in front of sqlx's pool.
//!
//! The pool pings every returned connection, which costs a round trip per statement and wakes both
//! processes. A connection whose statement succeeded needs no ping: it goes to the stack, and the
//! next statement takes the most recently used one. After a failure, a cancelled caller or a
//! transaction, the connection goes back to the pool.
//!
//! A quarter of the connections is for lookups, whose statements are planned once per connection
//! (generic plans). Otherwise PostgreSQL may keep planning a lookup for each execution, which takes
//! several times as long as the lookup itself, because it compares the plan with costs from when
//! the tables were smaller. An eighth is for pages of searches, planned the same way but slower
//! than key lookups, which they must not delay.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use sqlx::pool::PoolConnection;
use sqlx::{Connection, PgConnection, PgPool, Postgres, SqlSafeStr, Transaction};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::measure::{POSTGRES, measured_wait};

const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(10);
const PING_AFTER_IDLE: Duration = Duration::from_secs(1);
/// Time after which a connection goes back to the pool, which closes old ones.
const RETURN_AFTER: Duration = Duration::from_secs(300);
/// Attempts at a read or at beginning a transaction, each on another connection, when connections
/// are lost.
pub(super) const MAX_ATTEMPTS: usize = 3;

/// The connections to one database. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct PgConnections(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    pool: PgPool,
    /// The connections for lookups; `None` if this pool serves lookups.
    lookups: Option<PgConnections>,
    /// The connections for pages; `None` if this pool serves pages.
    pages: Option<PgConnections>,
    /// One permit per connection of the pool, so a caller with a permit never waits.
    permits: Arc<Semaphore>,
    /// Idle connections, the most recently used one last.
    idle: Mutex<VecDeque<IdleConnection>>,
}

#[derive(Debug)]
struct IdleConnection {
    connection: PoolConnection<Postgres>,
    taken_at: Instant,
    idle_since: Instant,
}

/// A connection for one statement. When dropped, the pool gets it back and pings it.
pub(super) struct Lease {
    connection: PoolConnection<Postgres>,
    /// When the pool gave out the connection.
    taken_at: Instant,
    permit: OwnedSemaphorePermit,
}

impl PgConnections {
    /// Takes over the pools. Nothing else may use them.
    pub(super) fn new(pool: PgPool, lookups: Option<PgPool>, pages: Option<PgPool>) -> Self {
        let permits = usize::try_from(pool.options().get_max_connections()).unwrap_or(usize::MAX);
        let permits = Arc::new(Semaphore::new(permits.min(Semaphore::MAX_PERMITS)));
        let [lookups, pages] = [lookups, pages].map(|pool| pool.map(|pool| Self::new(pool, None, None)));
        Self(Arc::new(Inner { pool, lookups, pages, permits, idle: Mutex::default() }))
    }

    pub(super) fn lookup_share(max_connections: u32) -> u32 {
        if max_connections < 2 { 0 } else { (max_connections / 4).max(1) }
    }

    pub(super) fn page_share(max_connections: u32) -> u32 {
        max_connections / 8
    }

    pub(super) fn pool(&self) -> &PgPool {
        &self.0.pool
    }

    pub(super) fn lookups(&self) -> &Self {
        self.0.lookups.as_ref().unwrap_or(self)
    }

    pub(super) fn pages(&self) -> &Self {
        self.0.pages.as_ref().unwrap_or(self)
    }

    fn others(&self) -> impl Iterator<Item = &Self> {
        [&self.0.lookups, &self.0.pages].into_iter().flatten()
    }

    pub(super) fn max_connections(&self) -> u32 {
        self.0.pool.options().get_max_connections() + self.others().map(Self::max_connections).sum::<u32>()
    }

    /// Returns the number of open connections and of those in use.
    pub(super) fn counts(&self) -> (u32, u32) {
        let open = self.0.pool.size();
        let waiting = u32::try_from(self.0.pool.num_idle() + self.0.idle.lock().len()).unwrap_or(u32::MAX);
        let own = (open, open.saturating_sub(waiting));
        self.others()
            .map(Self::counts)
            .fold(own, |(open, in_use), (more, more_in_use)| (open + more, in_use + more_in_use))
    }

    /// Takes a free connection or opens one. Fails if none is free in time or the database is
    /// unreachable.
    pub(super) async fn lease(&self) -> Result<Lease, sqlx::Error> {
        measured_wait(POSTGRES, self.take()).await
    }

    async fn take(&self) -> Result<Lease, sqlx::Error> {
        let permit = tokio::time::timeout(ACQUIRE_TIMEOUT, Arc::clone(&self.0.permits).acquire_owned()).await;
        let permit = permit.map_err(|_| sqlx::Error::PoolTimedOut)?.map_err(|_| sqlx::Error::PoolClosed)?;
        let newest = self.0.idle.lock().pop_back();
        if let Some(mut idle) = newest {
            let is_usable = idle.idle_since.elapsed() < PING_AFTER_IDLE || idle.connection.ping().await.is_ok();
            if is_usable {
                return Ok(Lease { connection: idle.connection, taken_at: idle.taken_at, permit });
            }
            // The others have been idle for longer and are most likely broken, too.
            drop(idle.connection.detach());
            self.discard_idle();
        }
        let connection = self.0.pool.acquire().await?;
        Ok(Lease { connection, taken_at: Instant::now(), permit })
    }

    /// Begins a transaction with `statement`. The permit stands for its connection.
    pub(super) async fn begin(
        &self,
        statement: &'static str,
    ) -> Result<(Transaction<'static, Postgres>, OwnedSemaphorePermit), sqlx::Error> {
        let mut attempt = 1;
        loop {
            let Lease { connection, permit, .. } = self.lease().await?;
            match Transaction::begin(connection, Some(statement.into_sql_str())).await {
                Ok(transaction) => return Ok((transaction, permit)),
                // Nothing was done yet.
                Err(error) if attempt < MAX_ATTEMPTS && is_connection_lost(&error) => self.discard_idle(),
                Err(error) => return Err(error),
            }
            attempt += 1;
        }
    }

    /// Keeps a connection whose statement succeeded for the next statement.
    pub(super) fn put_back(&self, lease: Lease) {
        let Lease { connection, taken_at, permit, .. } = lease;
        let now = Instant::now();
        let mut returned = Vec::new();
        let mut idle = self.0.idle.lock();
        while idle.front().is_some_and(|oldest| now.duration_since(oldest.idle_since) > RETURN_AFTER) {
            returned.extend(idle.pop_front().map(|oldest| oldest.connection));
        }
        // The pool is marked as closed before `close` empties the stack.
        if self.0.pool.is_closed() || now.duration_since(taken_at) > RETURN_AFTER {
            returned.push(connection);
        } else {
            idle.push_back(IdleConnection { connection, taken_at, idle_since: now });
        }
        drop(idle);
        drop(returned);
        drop(permit);
    }

    /// Closes a lost connection and all idle ones, which are lost too if the server has restarted.
    pub(super) fn discard(&self, lease: Lease) {
        drop(lease.connection.detach());
        self.discard_idle();
    }

    fn discard_idle(&self) {
        let idle = std::mem::take(&mut *self.0.idle.lock());
        idle.into_iter().for_each(|idle| drop(idle.connection.detach()));
    }

    /// Closes all connections. Waits for those in use.
    pub(super) fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let closed = self.0.pool.close();
            drop(std::mem::take(&mut *self.0.idle.lock()));
            closed.await;
            for other in self.others() {
                other.close().await;
            }
        })
    }
}

impl Drop for Inner {
    /// Closes the sockets of idle connections. Returning the connections to the pool would need a
    /// runtime.
    fn drop(&mut self) {
        let idle = std::mem::take(self.idle.get_mut());
        idle.into_iter().for_each(|idle| drop(idle.connection.detach()));
    }
}

impl Deref for Lease {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        &self.connection
    }
}

impl DerefMut for Lease {
    fn deref_mut(&mut self) -> &mut PgConnection {
        &mut self.connection
    }
}

/// Whether the error means that the server or the network closed the connection.
pub(super) fn is_connection_lost(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_) | sqlx::Error::Protocol(_) => true,
        // admin_shutdown, crash_shutdown, cannot_connect_now, idle_session_timeout
        sqlx::Error::Database(error) => {
            error.code().is_some_and(|code| matches!(code.as_ref(), "57P01" | "57P02" | "57P03" | "57P05"))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests;
