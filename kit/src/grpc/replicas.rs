//! The replicas of one service as a channel knows them: their connections, how they do, and which one gets the next call.
//!
//! A library's balancer (`tower`, and `tonic`'s channels over it) takes a service for ready until it says otherwise. A connection that
//! is made when it is needed says so with the failure of a call, and has no call in flight then: a dead replica would draw all of them.
//!
//! Not here: looking for replicas and asking how they do (`discovery`), and the repetition of calls (`retry`).

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::{Request, Response, Uri};
use hyper_util::rt::TokioIo;
use tokio::sync::{Notify, watch};
use tonic::body::Body;
use tonic::transport::Endpoint;
use tonic::{ConnectError, Status};
use tower::{ServiceExt, service_fn};

use super::channel_credentials::ChannelCredentials;
use super::find_cause;
use super::timeout::LONG_DEADLINE;
use crate::net::{Address, Stream};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Connections to one replica. A single HTTP/2 connection is the first bottleneck under load.
const CONNECTIONS_PER_REPLICA: usize = 2;
/// Silence on a connection after which the replica is asked for a sign of life, and the time that it has for it. After both the calls on
/// the connection fail. Over a Unix socket there is no network that could swallow packets, only a busy processor.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(5);
const LOCAL_KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(20);
const LOCAL_KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest time that a call waits until the host name of a service is resolved for the first time.
const FIRST_LOOK_TIMEOUT: Duration = Duration::from_secs(2);

/// The result of a call: a response, which may carry the status of an error, or a failure of the connection.
pub(super) type CallResult = Result<Response<Body>, tonic::transport::Error>;

/// Where a replica is: an address of the settings, and one of those that its host name stands for, if it has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) address: Address,
    pub(super) socket: Option<SocketAddr>,
}

/// How a replica does, as far as is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Health {
    /// Not asked yet.
    Unknown,
    Serving,
    /// Answers that it is starting, stopping, or without its database. Calls that it has go on.
    NotServing,
    /// Refuses connections or does not answer. Reads that it has are sent to another one.
    Unreachable,
}

/// A process that serves, with the connections to it.
#[derive(Debug)]
pub(super) struct Replica {
    pub(super) target: Target,
    connections: Vec<tonic::transport::Channel>,
    next: AtomicUsize,
    in_flight: AtomicUsize,
    health: watch::Sender<Health>,
}

/// Counts a call of a replica while it lives.
struct InFlight<'a>(&'a AtomicUsize);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Replica {
    /// Returns a replica without a connection; its first call opens one.
    pub(super) fn new(target: Target, credentials: Option<&ChannelCredentials>) -> Self {
        let connections = (0..CONNECTIONS_PER_REPLICA).map(|_| connection(&target, credentials.cloned())).collect();
        let (next, in_flight) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { target, connections, next, in_flight, health: watch::Sender::new(Health::Unknown) }
    }

    /// Returns one of the connections, in turn.
    pub(super) fn connection(&self) -> tonic::transport::Channel {
        let index = self.next.fetch_add(1, Ordering::Relaxed) % self.connections.len();
        self.connections[index].clone()
    }

    /// Makes a call.
    pub(super) async fn send(&self, request: Request<Body>) -> CallResult {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        let _in_flight = InFlight(&self.in_flight);
        self.connection().oneshot(request).await
    }

    /// Makes a call that may be repeated elsewhere. Returns `None` if the replica is found to be unreachable before it answers.
    pub(super) async fn send_while_reachable(&self, request: Request<Body>) -> Option<CallResult> {
        let mut health = self.health.subscribe();
        if *health.borrow_and_update() == Health::Unreachable {
            return Some(self.send(request).await);
        }
        let lost = async {
            // An error says that the sender is gone, which this replica holds.
            let _ = health.wait_for(|health| *health == Health::Unreachable).await;
        };
        tokio::select! {
            biased;
            result = self.send(request) => Some(result),
            () = lost => None,
        }
    }

    pub(super) fn health(&self) -> Health {
        *self.health.borrow()
    }

    /// Sets what is known of the replica, and logs a change for the worse or back.
    pub(super) fn set_health(&self, health: Health) {
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
            (rank, replica.in_flight.load(Ordering::Relaxed))
        });
        best.cloned()
    }

    /// Notes that a call of `replica` failed with `error`. A replica that takes no connection gets no call until it answers again.
    pub(super) fn note_failure(&self, replica: &Replica, error: &tonic::transport::Error) {
        if self.is_several() && find_cause::<ConnectError>(error).is_some() {
            replica.set_health(Health::Unreachable);
        }
        self.look.notify_one();
    }
}

fn is_in(tried: &[Arc<Replica>], replica: &Arc<Replica>) -> bool {
    tried.iter().any(|other| Arc::ptr_eq(other, replica))
}

fn connection(target: &Target, credentials: Option<ChannelCredentials>) -> tonic::transport::Channel {
    // The host is for the `:authority` header only: the connector dials the target.
    let authority = match &target.address {
        Address::Tcp(authority) => format!("http://{authority}"),
        Address::Unix(_) => "http://localhost".to_owned(),
    };
    let (interval, timeout) = match &target.address {
        Address::Tcp(_) => (KEEP_ALIVE_INTERVAL, KEEP_ALIVE_TIMEOUT),
        Address::Unix(_) => (LOCAL_KEEP_ALIVE_INTERVAL, LOCAL_KEEP_ALIVE_TIMEOUT),
    };
    let target = target.clone();
    Endpoint::try_from(authority)
        .unwrap_or_else(|_| Endpoint::from_static("http://localhost"))
        .connect_timeout(CONNECT_TIMEOUT)
        // The deadline of each call is that of `retry`, which is this one or earlier.
        .timeout(LONG_DEADLINE)
        .http2_keep_alive_interval(interval)
        .keep_alive_timeout(timeout)
        .keep_alive_while_idle(true)
        .initial_stream_window_size(1024 * 1024)
        .initial_connection_window_size(4 * 1024 * 1024)
        .connect_with_connector_lazy(service_fn(move |_: Uri| {
            let (target, credentials) = (target.clone(), credentials.clone());
            async move { connect(&target, credentials.as_ref()).await.map(TokioIo::new) }
        }))
}

async fn connect(target: &Target, credentials: Option<&ChannelCredentials>) -> std::io::Result<Stream> {
    match (target.socket, credentials) {
        (Some(socket), Some(credentials)) => credentials.connect_to(&target.address, socket).await,
        (Some(socket), None) => target.address.connect_to(socket, None).await,
        (None, Some(credentials)) => credentials.connect(&target.address).await,
        (None, None) => target.address.connect().await,
    }
}
