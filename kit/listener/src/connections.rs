//! Counts of the connections of a listener: in total, of each address and of each network. When all are in use, the one that has been idle
//! for longest makes room.
//!
//! Not here: what a connection does, which is in [`super::activity`], and SSH, which is counted here but served elsewhere.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use super::activity::ConnectionActivity;

/// One of this many parts of all connections is kept for addresses with few connections.
const RESERVED_PART: usize = 8;
/// Connections of an address below which it may use the reserve.
const FEW_CONNECTIONS: usize = 8;
/// Shortest time between two lines of the log about refused connections.
const LOG_INTERVAL: Duration = Duration::from_secs(60);
const ADDRESS_BITS_V6: u32 = 64;
const NETWORK_BITS_V6: u32 = 48;

/// Most connections of a listener at once.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionBounds {
    /// All together.
    pub total: usize,
    /// Of one IPv4 address, or of one IPv6 network of 64 bits.
    pub per_address: usize,
    /// Of one IPv6 network of 48 bits.
    pub per_network: usize,
}

/// The bound that a connection is refused by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionRefusal {
    /// All connections of the listener are in use, and none of them is idle.
    Full,
    /// The address of the client has as many as it may have.
    Address,
    /// The IPv6 network of the client has as many as it may have.
    Network,
}

impl ConnectionRefusal {
    /// Returns the name of the bound in metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Address => "address",
            Self::Network => "network",
        }
    }
}

/// Returns the address under which a client is counted: for IPv6 its network of 64 bits, of which one client has all addresses.
#[must_use]
pub fn counted_address(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(network(address, ADDRESS_BITS_V6)),
        address @ IpAddr::V4(_) => address,
    }
}

/// Returns the network of `address` with the given length.
fn network(address: Ipv6Addr, bits: u32) -> Ipv6Addr {
    Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << (u128::BITS - bits)))
}

/// The counts of one listener. Clones share them.
#[derive(Clone, Debug)]
pub struct ConnectionTable(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    listener: &'static str,
    bounds: ConnectionBounds,
    epoch: Instant,
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    addresses: HashMap<IpAddr, usize>,
    networks: HashMap<Ipv6Addr, usize>,
    connections: HashMap<u64, Arc<ConnectionActivity>>,
    next_id: u64,
    logged_at: Option<Instant>,
}

/// The keys that one connection is counted under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    address: IpAddr,
    network: Option<Ipv6Addr>,
}

impl Key {
    fn new(address: IpAddr) -> Self {
        let address = counted_address(address);
        let network = match address {
            IpAddr::V6(address) => Some(network(address, NETWORK_BITS_V6)),
            IpAddr::V4(_) => None,
        };
        Self { address, network }
    }
}

impl Counts {
    fn of_address(&self, key: &Key) -> usize {
        self.addresses.get(&key.address).copied().unwrap_or(0)
    }

    /// Counts a connection under `key`.
    ///
    /// # Errors
    /// When the address or its network has too many.
    fn add(&mut self, key: &Key, bounds: &ConnectionBounds) -> Result<(), ConnectionRefusal> {
        if self.of_address(key) >= bounds.per_address {
            return Err(ConnectionRefusal::Address);
        }
        if let Some(network) = key.network {
            let count = self.networks.entry(network).or_insert(0);
            if *count >= bounds.per_network {
                return Err(ConnectionRefusal::Network);
            }
            *count += 1;
        }
        *self.addresses.entry(key.address).or_insert(0) += 1;
        Ok(())
    }

    fn remove(&mut self, key: &Key) {
        decrement(&mut self.addresses, &key.address);
        if let Some(network) = key.network {
            decrement(&mut self.networks, &network);
        }
    }

    /// Makes the connection close that has been idle for longest. Returns false if none is idle.
    fn evict(&self) -> bool {
        let idle = self.connections.values().filter(|connection| !connection.is_evicted());
        let longest =
            idle.filter_map(|connection| Some((connection.idle_since()?, connection))).min_by_key(|idle| idle.0);
        longest.is_some_and(|(_, connection)| connection.evict())
    }
}

fn decrement<K: std::hash::Hash + Eq>(counts: &mut HashMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

impl ConnectionTable {
    /// Makes the table of a listener without connections. `listener` is its name in metrics.
    #[must_use]
    pub fn new(listener: &'static str, bounds: ConnectionBounds) -> Self {
        Self(Arc::new(Inner { listener, bounds, epoch: Instant::now(), counts: Mutex::default() }))
    }

    /// Counts a connection until its slot is dropped. Without an address, as over Unix sockets and from trusted proxies, only the total
    /// bounds it. When all connections are in use, one that is idle is told to close, and the new one takes its place.
    ///
    /// # Errors
    /// The bound that it exceeds; the connection has to be closed.
    pub fn admit(&self, address: Option<IpAddr>) -> Result<ConnectionSlot, ConnectionRefusal> {
        let key = address.map(Key::new);
        let mut counts = self.0.counts.lock();
        match self.try_admit(&mut counts, key.as_ref()) {
            Ok(()) => {}
            Err(refusal) => {
                self.refuse(counts, refusal, address);
                return Err(refusal);
            }
        }
        let (id, activity) = (counts.next_id, Arc::new(ConnectionActivity::new(self.0.epoch)));
        counts.next_id += 1;
        counts.connections.insert(id, Arc::clone(&activity));
        drop(counts);
        metrics::gauge!("ferrite_connections", "listener" => self.0.listener).increment(1);
        Ok(ConnectionSlot { table: self.clone(), id, key, activity })
    }

    fn try_admit(&self, counts: &mut Counts, key: Option<&Key>) -> Result<(), ConnectionRefusal> {
        let bounds = &self.0.bounds;
        let has_few = key.is_none_or(|key| counts.of_address(key) < FEW_CONNECTIONS);
        let reserved = if has_few { 0 } else { bounds.total / RESERVED_PART };
        if let Some(key) = key {
            counts.add(key, bounds)?;
        }
        if counts.connections.len() >= bounds.total - reserved && !counts.evict() {
            if let Some(key) = key {
                counts.remove(key);
            }
            return Err(ConnectionRefusal::Full);
        }
        Ok(())
    }

    /// Makes the connection close that has been idle for longest, as the process is out of file descriptors.
    pub fn evict(&self) {
        self.0.counts.lock().evict();
    }

    /// Counts a refused connection, and now and then logs one.
    fn refuse(&self, mut counts: MutexGuard<'_, Counts>, refusal: ConnectionRefusal, address: Option<IpAddr>) {
        let is_logged = counts.logged_at.is_none_or(|logged_at| logged_at.elapsed() >= LOG_INTERVAL);
        if is_logged {
            counts.logged_at = Some(Instant::now());
        }
        let connections = counts.connections.len();
        drop(counts);
        let (listener, reason) = (self.0.listener, refusal.as_str());
        metrics::counter!("ferrite_connections_refused_total", "listener" => listener, "reason" => reason).increment(1);
        if is_logged {
            let address = address.map(|address| address.to_string()).unwrap_or_default();
            tracing::warn!(listener, reason, address, connections, "connections are refused");
        }
    }

    /// Counts a connection that the server ended.
    pub(super) fn count_closed(&self, reason: &'static str) {
        let listener = self.0.listener;
        metrics::counter!("ferrite_connections_closed_total", "listener" => listener, "reason" => reason).increment(1);
    }
}

/// One connection in the counts of its listener, until it is dropped.
#[derive(Debug)]
pub struct ConnectionSlot {
    table: ConnectionTable,
    id: u64,
    key: Option<Key>,
    activity: Arc<ConnectionActivity>,
}

impl ConnectionSlot {
    /// Counts the connection under the address of its client, which a proxy has named, in place of the one before.
    ///
    /// # Errors
    /// The bound that it exceeds; the connection has to be closed.
    pub fn set_address(&mut self, address: IpAddr) -> Result<(), ConnectionRefusal> {
        let key = Key::new(address);
        if self.key == Some(key) {
            return Ok(());
        }
        let mut counts = self.table.0.counts.lock();
        if let Err(refusal) = counts.add(&key, &self.table.0.bounds) {
            self.table.refuse(counts, refusal, Some(address));
            return Err(refusal);
        }
        if let Some(before) = self.key.replace(key) {
            counts.remove(&before);
        }
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
        if let Some(key) = self.key {
            counts.remove(&key);
        }
        drop(counts);
        metrics::gauge!("ferrite_connections", "listener" => self.table.0.listener).decrement(1);
    }
}

#[cfg(test)]
mod tests;
