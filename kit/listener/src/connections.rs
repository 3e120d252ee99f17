//! Counts and limits the connections of a listener: in total, per address and per network. When all
//! are in use, the one that has been idle for longest makes room.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use super::activity::ConnectionActivity;
use super::quota::{Client, Quota, QuotaFull, QuotaLimits, Share, counted_address};

/// One eighth of all connections is reserved for addresses with few connections.
const RESERVED_PART: usize = 8;
/// An address with fewer connections may use the reserve.
const FEW_CONNECTIONS: usize = 8;
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// The counts of one listener. Clones share them.
#[derive(Clone, Debug)]
pub struct ConnectionTable(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    listener: &'static str,
    total: usize,
    /// Counts per address and network.
    quota: Quota,
    epoch: Instant,
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    connections: HashMap<u64, Arc<ConnectionActivity>>,
    next_id: u64,
    logged_at: Option<Instant>,
}

impl Counts {
    /// Closes the connection that has been idle for longest. Returns false if none is idle.
    fn evict(&self) -> bool {
        let idle = self.connections.values().filter(|connection| !connection.is_evicted());
        let longest =
            idle.filter_map(|connection| Some((connection.idle_since()?, connection))).min_by_key(|idle| idle.0);
        longest.is_some_and(|(_, connection)| connection.evict())
    }
}

impl ConnectionTable {
    /// Returns the empty table of a listener. `listener` is its name in metrics.
    #[must_use]
    pub fn new(listener: &'static str, limits: QuotaLimits) -> Self {
        // The table checks the total itself, because idle connections make room.
        let quota = Quota::new(QuotaLimits { total: usize::MAX, ..limits });
        Self(Arc::new(Inner { listener, total: limits.total, quota, epoch: Instant::now(), counts: Mutex::default() }))
    }

    /// Counts a connection until its slot is dropped. Without an address, as over Unix sockets and
    /// from trusted proxies, only the total limits it. When all connections are in use, an idle one
    /// is closed and the new one takes its place.
    ///
    /// # Errors
    /// The limit that is reached. The caller must close the connection.
    pub fn admit(&self, address: Option<IpAddr>) -> Result<ConnectionSlot, QuotaFull> {
        let mut counts = self.0.counts.lock();
        let share = match self.try_admit(&counts, Client { address, user: None }) {
            Ok(share) => share,
            Err(full) => {
                self.refuse(counts, full, address);
                return Err(full);
            }
        };
        let (id, activity) = (counts.next_id, Arc::new(ConnectionActivity::new(self.0.epoch)));
        counts.next_id += 1;
        counts.connections.insert(id, Arc::clone(&activity));
        drop(counts);
        metrics::gauge!("ferrite_connections", "listener" => self.0.listener).increment(1);
        Ok(ConnectionSlot { table: self.clone(), id, address: address.map(counted_address), _share: share, activity })
    }

    fn try_admit(&self, counts: &Counts, client: Client) -> Result<Share, QuotaFull> {
        let has_few = self.0.quota.held_by(client) < FEW_CONNECTIONS;
        let reserved = if has_few { 0 } else { self.0.total / RESERVED_PART };
        let share = self.0.quota.take(client)?;
        if counts.connections.len() >= self.0.total - reserved && !counts.evict() {
            return Err(QuotaFull::Total);
        }
        Ok(share)
    }

    /// Closes the connection that has been idle for longest, because the process is out of file
    /// descriptors.
    pub fn evict(&self) {
        self.0.counts.lock().evict();
    }

    /// Counts a refused connection. Logs one every [`LOG_INTERVAL`].
    fn refuse(&self, mut counts: MutexGuard<'_, Counts>, full: QuotaFull, address: Option<IpAddr>) {
        let is_logged = counts.logged_at.is_none_or(|logged_at| logged_at.elapsed() >= LOG_INTERVAL);
        if is_logged {
            counts.logged_at = Some(Instant::now());
        }
        let connections = counts.connections.len();
        drop(counts);
        let (listener, reason) = (self.0.listener, full.as_str());
        metrics::counter!("ferrite_connections_refused_total", "listener" => listener, "reason" => reason).increment(1);
        if is_logged {
            let address = address.map(|address| address.to_string()).unwrap_or_default();
            tracing::warn!(listener, reason, address, connections, "refusing connections");
        }
    }

    pub(super) fn count_closed(&self, reason: &'static str) {
        let listener = self.0.listener;
        metrics::counter!("ferrite_connections_closed_total", "listener" => listener, "reason" => reason).increment(1);
    }
}

/// A counted connection of a listener, until dropped.
#[derive(Debug)]
pub struct ConnectionSlot {
    table: ConnectionTable,
    id: u64,
    /// The address that it is counted by.
    address: Option<IpAddr>,
    _share: Share,
    activity: Arc<ConnectionActivity>,
}

impl ConnectionSlot {
    /// Counts the connection by the client address that a proxy has sent, instead of the previous
    /// one.
    ///
    /// # Errors
    /// The limit that is reached. The caller must close the connection.
    pub fn set_address(&mut self, address: IpAddr) -> Result<(), QuotaFull> {
        let counted = Some(counted_address(address));
        if self.address == counted {
            return Ok(());
        }
        let inner = &self.table.0;
        let share = inner.quota.take(Client { address: counted, user: None });
        self._share = share.inspect_err(|full| self.table.refuse(inner.counts.lock(), *full, Some(address)))?;
        self.address = counted;
        Ok(())
    }

    pub(super) fn activity(&self) -> &Arc<ConnectionActivity> {
        &self.activity
    }

    pub(super) fn table(&self) -> &ConnectionTable {
        &self.table
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut counts = self.table.0.counts.lock();
        counts.connections.remove(&self.id);
        drop(counts);
        metrics::gauge!("ferrite_connections", "listener" => self.table.0.listener).decrement(1);
    }
}

#[cfg(test)]
mod tests;
