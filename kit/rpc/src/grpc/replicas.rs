//! The replicas of one service as a channel knows them: their connections, how they do, and which one gets the next call.
//!
//! `tonic` 0.14's `Channel::balance_channel`, over `tower` 0.5's `Balance`, cannot replace this:
//! - it dials over TCP with its own TLS (`DynamicServiceStream`); Unix sockets and `ChannelCredentials` have no place in it;
//! - a connection that cannot be opened counts as ready, and the load of each is 0 (`Reconnect`, `Connection`), so a dead replica keeps
//!   getting its share of the calls;
//! - nothing stops calls to a replica that is `NOT_SERVING` or hangs, and a retry cannot leave out the replicas that failed;
//! - `Balance` waits while no service is ready; here a call goes to any replica, as what is known of them may be old.
//!
//! Not here: looking for replicas and asking how they do (`discovery`), the repetition of calls (`retry`), and connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use http::Request;
use tokio::sync::{Notify, watch};
use tonic::Status;
use tonic::body::Body;

use super::channel_credentials::ChannelCredentials;
use super::connection::{CallError, CallResult, Connection, Target};

/// Connections to one replica. A single HTTP/2 connection is the first bottleneck under load.
const CONNECTIONS_PER_REPLICA: usize = 2;
/// Questions in a row without a response after which a replica is unreachable: one late response comes from a busy processor.
const MAX_UNANSWERED: u32 = 2;
/// Longest time that a call waits until the host name of a service is resolved for the first time.
const FIRST_LOOK_TIMEOUT: Duration = Duration::from_secs(2);

/// How a replica does, as far as is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Health {
    /// Not asked yet.
    Unknown,
    Serving,
    /// Responds that it is starting, stopping, or without its database. Calls that it has go on.
    NotServing,
    /// Refuses connections or does not respond. Reads that it has are sent to another one.
    Unreachable,
}

/// A process that serves, with the connections to it.
#[derive(Debug)]
pub(super) struct Replica {
    pub(super) target: Target,
    connections: Vec<Connection>,
    next: AtomicUsize,
    /// Each call in flight holds a clone.
    in_flight: Arc<()>,
    health: watch::Sender<Health>,
    /// Questions in a row that the replica has not responded to.
    unanswered: AtomicU32,
}

impl Replica {
    /// Returns a replica without a connection; its first call opens one.
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

    /// Makes a call.
    pub(super) async fn send(&self, request: Request<Body>) -> CallResult {
        let _in_flight = Arc::clone(&self.in_flight);
        self.connection().send(request).await
    }

    /// Makes a call that may be repeated elsewhere. It is `UNAVAILABLE` once the replica is found to be unreachable.
    pub(super) async fn send_while_reachable(&self, request: Request<Body>) -> CallResult {
        let mut health = self.health.subscribe();
        if *health.borrow_and_update() == Health::Unreachable {
            return self.send(request).await;
        }
        let lost = async {
            // An error says that the sender is gone, which this replica holds.
            let _ = health.wait_for(|health| *health == Health::Unreachable).await;
        };
        tokio::select! {
            biased;
            result = self.send(request) => result,
            () = lost => Ok(Status::unavailable("the service does not answer").into_http()),
        }
    }

    pub(super) fn health(&self) -> Health {
        *self.health.borrow()
    }

    /// Notes the response to the question how the replica does, or that none came in time.
    pub(super) fn note_probe(&self, response: Option<Health>) {
        if let Some(health) = response {
            self.unanswered.store(0, Ordering::Relaxed);
            self.set_health(health);
        } else if self.unanswered.fetch_add(1, Ordering::Relaxed) + 1 >= MAX_UNANSWERED {
            self.set_health(Health::Unreachable);
        }
    }

    /// Sets what is known of the replica, and logs a change for the worse or back.
    fn set_health(&self, health: Health) {
        let old = self.health.send_replace(health);
        if old == health {
            return;
        }
        let Target { address, socket } = &self.target;
        match (old, health) {
            // It may be starting, as this process is.
            (Health::Unknown, Health::Unreachable) => {
                tracing::info!(%address, ?socket, "a replica cannot be reached yet");
            }
            (_, Health::Unreachable) => tracing::warn!(%address, ?socket, "a replica cannot be reached"),
            (Health::Unreachable, _) => tracing::info!(%address, ?socket, "a replica can be reached again"),
            _ => tracing::debug!(%address, ?socket, ?health, "a replica"),
        }
    }
}

/// The replicas of a service. Calls are spread over those that serve.
#[derive(Debug)]
pub(super) struct ReplicaSet {
    found: watch::Sender<Found>,
    next: AtomicUsize,
    /// Wakes `discovery` before its time.
    pub(super) look: Notify,
}

#[derive(Clone, Debug)]
struct Found {
    replicas: Arc<[Arc<Replica>]>,
    /// False until all host names have been asked for once.
    is_complete: bool,
}

impl ReplicaSet {
    /// Returns a set of `replicas`, which is complete unless host names are still to be resolved.
    pub(super) fn new(replicas: Vec<Arc<Replica>>, is_complete: bool) -> Self {
        // Processes that start together do not begin with the same replica.
        let next = AtomicUsize::new(rand::random_range(0..1024));
        Self { found: watch::Sender::new(Found { replicas: replicas.into(), is_complete }), next, look: Notify::new() }
    }

    pub(super) fn all(&self) -> Arc<[Arc<Replica>]> {
        Arc::clone(&self.found.borrow().replicas)
    }

    /// Replaces the set after all host names were asked for.
    pub(super) fn replace(&self, replicas: Vec<Arc<Replica>>) {
        self.found.send_replace(Found { replicas: replicas.into(), is_complete: true });
    }

    pub(super) fn is_several(&self) -> bool {
        self.found.borrow().replicas.len() > 1
    }

    /// Returns whether a replica serves, or may serve, that is not in `tried`.
    pub(super) fn has_other(&self, tried: &[Arc<Replica>]) -> bool {
        let may_serve = |replica: &Replica| matches!(replica.health(), Health::Serving | Health::Unknown);
        self.all().iter().any(|replica| may_serve(replica) && !is_in(tried, replica))
    }

    /// Returns the replica for the next call: one that serves, not one of `tried` if there is another, the one with the fewest calls in
    /// flight, and among equals the next in turn. If none is known to serve it is any: what is known of them may be old.
    ///
    /// # Errors
    /// `UNAVAILABLE` if the host name of the service stands for no address.
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

    /// Notes that a call of `replica` failed with `error`. A replica that takes no connection gets no call until it responds again.
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
