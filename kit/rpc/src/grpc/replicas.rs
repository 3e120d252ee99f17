//! The replicas of one service in a channel: their connections, their health, and the choice for
//! the next call.
//!
//! `Channel::balance_channel` of tonic 0.14, over `Balance` of tower 0.5, cannot replace this:
//! - It dials over TCP with its own TLS (`DynamicServiceStream`), so it supports neither Unix
//!   sockets nor `ChannelCredentials`.
//! - A connection that cannot be opened counts as ready, and every load is 0 (`Reconnect`,
//!   `Connection`), so a dead replica keeps getting its share of the calls.
//! - It keeps calling a replica that is `NOT_SERVING` or hangs, and a retry cannot avoid the
//!   replicas that failed.
//! - `Balance` waits while no service is ready. Here a call then goes to any replica, because
//!   their known health may be outdated.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use http::Request;
use tokio::sync::{Notify, watch};
use tonic::Status;
use tonic::body::Body;

use super::channel_credentials::ChannelCredentials;
use super::connection::{CallError, CallResult, Connection, Target};

/// A single HTTP/2 connection is the first bottleneck under load.
const CONNECTIONS_PER_REPLICA: usize = 2;
/// Consecutive health checks without a response after which a replica is unreachable. One late
/// response only means a busy CPU.
const MAX_UNANSWERED: u32 = 2;
/// How long a call waits for the first resolution of the service's host name.
const FIRST_LOOK_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Health {
    /// Not checked yet.
    Unknown,
    Serving,
    /// Starting, stopping, or without its database. Running calls continue.
    NotServing,
    /// Refuses connections or does not respond. Running reads move to another replica.
    Unreachable,
}

/// A serving process, with the connections to it.
#[derive(Debug)]
pub(super) struct Replica {
    pub(super) target: Target,
    connections: Vec<Connection>,
    next: AtomicUsize,
    /// Each call in flight holds a clone.
    in_flight: Arc<()>,
    health: watch::Sender<Health>,
    /// Consecutive health checks without a response.
    unanswered: AtomicU32,
}

impl Replica {
    /// Returns a replica without connections. The first call opens one.
    pub(super) fn new(target: Target, credentials: Option<&ChannelCredentials>) -> Self {
        let connection = |_| Connection::new(target.clone(), credentials.cloned());
        let connections = (0..CONNECTIONS_PER_REPLICA).map(connection).collect();
        let (next, in_flight, unanswered) = (AtomicUsize::new(0), Arc::default(), AtomicU32::new(0));
        Self { target, connections, next, in_flight, health: watch::Sender::new(Health::Unknown), unanswered }
    }

    /// Returns one of the connections, in turn.
    pub(super) fn connection(&self) -> &Connection {
        &self.connections[self.next.fetch_add(1, Ordering::Relaxed) % self.connections.len()]
    }

    pub(super) async fn send(&self, request: Request<Body>) -> CallResult {
        let _in_flight = Arc::clone(&self.in_flight);
        self.connection().send(request).await
    }

    /// Makes a call that may be retried elsewhere. Returns `UNAVAILABLE` as soon as the replica is
    /// unreachable.
    pub(super) async fn send_while_reachable(&self, request: Request<Body>) -> CallResult {
        let mut health = self.health.subscribe();
        if *health.borrow_and_update() == Health::Unreachable {
            return self.send(request).await;
        }
        let lost = async {
            // An error would mean that the sender is gone, but `self` holds it.
            let _ = health.wait_for(|health| *health == Health::Unreachable).await;
        };
        tokio::select! {
            biased;
            result = self.send(request) => result,
            () = lost => Ok(Status::unavailable("the service does not respond").into_http()),
        }
    }

    pub(super) fn health(&self) -> Health {
        *self.health.borrow()
    }

    /// Records the result of a health check; `None` if there was no response in time.
    pub(super) fn note_probe(&self, response: Option<Health>) {
        if let Some(health) = response {
            self.unanswered.store(0, Ordering::Relaxed);
            self.set_health(health);
        } else if self.unanswered.fetch_add(1, Ordering::Relaxed) + 1 >= MAX_UNANSWERED {
            self.set_health(Health::Unreachable);
        }
    }

    /// Sets the health, and logs when a replica becomes unreachable or recovers.
    fn set_health(&self, health: Health) {
        let old = self.health.send_replace(health);
        if old == health {
            return;
        }
        let Target { address, socket } = &self.target;
        match (old, health) {
            // It may still be starting, like this process.
            (Health::Unknown, Health::Unreachable) => {
                tracing::info!(%address, ?socket, "replica is not reachable yet");
            }
            (_, Health::Unreachable) => tracing::warn!(%address, ?socket, "replica is not reachable"),
            (Health::Unreachable, _) => tracing::info!(%address, ?socket, "replica is reachable again"),
            _ => tracing::debug!(%address, ?socket, ?health, "a replica"),
        }
    }
}

/// The replicas of a service. Calls are balanced over those that serve.
#[derive(Debug)]
pub(super) struct ReplicaSet {
    found: watch::Sender<Found>,
    next: AtomicUsize,
    /// Wakes `discovery` early.
    pub(super) look: Notify,
}

#[derive(Clone, Debug)]
struct Found {
    replicas: Arc<[Arc<Replica>]>,
    /// False until all host names were resolved once.
    is_complete: bool,
}

impl ReplicaSet {
    /// Returns a set of `replicas`. It is complete unless host names must still be resolved.
    pub(super) fn new(replicas: Vec<Arc<Replica>>, is_complete: bool) -> Self {
        // Processes that start together should not all begin with the same replica.
        let next = AtomicUsize::new(rand::random_range(0..1024));
        Self { found: watch::Sender::new(Found { replicas: replicas.into(), is_complete }), next, look: Notify::new() }
    }

    pub(super) fn all(&self) -> Arc<[Arc<Replica>]> {
        Arc::clone(&self.found.borrow().replicas)
    }

    /// Replaces the set after all host names were resolved.
    pub(super) fn replace(&self, replicas: Vec<Arc<Replica>>) {
        self.found.send_replace(Found { replicas: replicas.into(), is_complete: true });
    }

    pub(super) fn is_several(&self) -> bool {
        self.found.borrow().replicas.len() > 1
    }

    /// Whether a replica outside `tried` serves, or may serve.
    pub(super) fn has_other(&self, tried: &[Arc<Replica>]) -> bool {
        let may_serve = |replica: &Replica| matches!(replica.health(), Health::Serving | Health::Unknown);
        self.all().iter().any(|replica| may_serve(replica) && !is_in(tried, replica))
    }

    /// Returns the replica for the next call: one that serves, if possible not one of `tried`, with
    /// the fewest calls in flight, and among equals the next in turn. If none is known to serve,
    /// returns any, because the known health may be outdated. Fails with `UNAVAILABLE` if the
    /// service's host name resolves to no address.
    pub(super) async fn pick(&self, tried: &[Arc<Replica>]) -> Result<Arc<Replica>, Status> {
        let replicas = self.all();
        if let [only] = &*replicas {
            return Ok(Arc::clone(only));
        }
        if let Some(replica) = self.best(&replicas, tried) {
            return Ok(replica);
        }
        self.look.notify_one();
        let mut found = self.found.subscribe();
        let complete = async {
            let _ = found.wait_for(|found| found.is_complete || !found.replicas.is_empty()).await;
        };
        let _ = tokio::time::timeout(FIRST_LOOK_TIMEOUT, complete).await;
        self.best(&self.all(), tried).ok_or_else(|| Status::unavailable("no address of the service is known"))
    }

    fn best(&self, replicas: &[Arc<Replica>], tried: &[Arc<Replica>]) -> Option<Arc<Replica>> {
        let first = self.next.fetch_add(1, Ordering::Relaxed) % replicas.len().max(1);
        let in_turn = replicas[first..].iter().chain(&replicas[..first]);
        let best = in_turn.min_by_key(|replica| {
            let rank = match (replica.health(), is_in(tried, replica)) {
                (Health::Serving, false) => 0,
                (Health::Unknown, false) => 1,
                (Health::Serving | Health::Unknown, true) => 2,
                (Health::NotServing, false) => 3,
                (Health::Unreachable, false) => 4,
                (Health::NotServing, true) => 5,
                (Health::Unreachable, true) => 6,
            };
            (rank, Arc::strong_count(&replica.in_flight))
        });
        best.cloned()
    }

    /// Records that a call failed. A replica that accepts no connection gets no calls until it
    /// responds again.
    pub(super) fn note_failure(&self, replica: &Replica, error: &CallError) {
        if self.is_several() && matches!(error, CallError::Connect(_)) {
            replica.set_health(Health::Unreachable);
        }
        self.look.notify_one();
    }
}

fn is_in(tried: &[Arc<Replica>], replica: &Arc<Replica>) -> bool {
    tried.iter().any(|other| Arc::ptr_eq(other, replica))
}
