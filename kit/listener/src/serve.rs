//! Serves an axum router over HTTP/1.1 and HTTP/2 on the same port until the process stops.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use ferrite_core::Lifecycle;
use ferrite_core::net::{Listener, Stream};
use futures_util::future::BoxFuture;
use http::header::CONNECTION;
use http::{HeaderValue, StatusCode, Version};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulConnection;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use super::activity::{ConnectionActivity, Due};
use super::connections::ConnectionTable;
use super::limits::{ListenerLimits, ListenerOptions, PublicLimits};
use super::linger::UnreadBody;
use super::quota::QuotaLimits;
use super::timeout_stream::{Place, TimeoutStream};
use super::tracked_body::{RequestPermit, TrackedBody};

const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);
/// Maximum number of response bytes that wait in an HTTP/2 stream of a public client.
const PUBLIC_SEND_BUFFER_BYTES: usize = 64 * 1024;

/// The client's address, an extension of every request. Absent over Unix sockets.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub SocketAddr);

/// Serves `router` on `listener` until `life` stops, then lets running requests finish within the
/// grace period.
///
/// The future is boxed so that the HTTP server is compiled once, in this crate.
pub fn serve(listener: Listener, router: Router, options: ListenerOptions, life: Lifecycle) -> BoxFuture<'static, ()> {
    let admission = Admission::new(&options.limits);
    Box::pin(Server::new(router, options, admission).accept(listener, life))
}

/// Serves `router` on all `listeners` until `life` stops. Public listeners share one connection
/// limit.
pub fn serve_all(
    listeners: Vec<Listener>,
    router: Router,
    options: ListenerOptions,
    life: &Lifecycle,
) -> BoxFuture<'static, ()> {
    let life = life.clone();
    Box::pin(async move {
        let shared = Admission::new(&options.limits);
        let start = |listener| {
            let admission = match &shared {
                Admission::Bounded(table) => Admission::Bounded(table.clone()),
                Admission::Queue(_) => Admission::new(&options.limits),
            };
            let server = Server::new(router.clone(), options.clone(), admission);
            let accept: BoxFuture<'static, ()> = Box::pin(server.accept(listener, life.clone()));
            life.spawn("listener", accept)
        };
        let tasks: Vec<_> = listeners.into_iter().map(start).collect();
        for task in tasks {
            let _ = task.await;
        }
    })
}

/// How a listener limits its connections.
enum Admission {
    /// Connections beyond the limit wait in the kernel's listen queue: they are calls of our own
    /// services.
    Queue(Arc<Semaphore>),
    /// Connections beyond a limit are closed.
    Bounded(ConnectionTable),
}

impl Admission {
    fn new(limits: &ListenerLimits) -> Self {
        match &limits.public {
            Some(public) => {
                let limits = QuotaLimits {
                    total: limits.connections,
                    per_address: public.connections_per_address,
                    per_network: public.connections_per_network,
                    ..QuotaLimits::NONE
                };
                Self::Bounded(ConnectionTable::new("http", limits))
            }
            None => Self::Queue(Arc::new(Semaphore::new(limits.connections))),
        }
    }

    /// Waits until a connection may be accepted.
    async fn ready(&self) -> Option<OwnedSemaphorePermit> {
        match self {
            Self::Queue(permits) => {
                Some(Arc::clone(permits).acquire_owned().await.expect("the semaphore is never closed"))
            }
            Self::Bounded(_) => None,
        }
    }

    /// Returns the place of an accepted connection; `None` if it must be closed.
    fn place(&self, permit: Option<OwnedSemaphorePermit>, address: Option<IpAddr>) -> Option<Place> {
        match (self, permit) {
            (Self::Bounded(table), _) => table.admit(address).ok().map(Place::Counted),
            (Self::Queue(_), permit) => permit.map(|permit| Place::Queued { _permit: permit }),
        }
    }
}

struct Server {
    builder: Builder<TokioExecutor>,
    router: Router,
    options: ListenerOptions,
    admission: Admission,
    connections: TaskTracker,
    /// Cancelled at shutdown: connections finish their requests.
    stop: CancellationToken,
    /// Cancelled at the end of the grace period: connections are closed.
    abort: CancellationToken,
}

impl Server {
    fn new(router: Router, options: ListenerOptions, admission: Admission) -> Arc<Self> {
        Arc::new(Self {
            builder: builder(&options.limits),
            router,
            options,
            admission,
            connections: TaskTracker::new(),
            stop: CancellationToken::new(),
            abort: CancellationToken::new(),
        })
    }

    async fn accept(self: Arc<Self>, listener: Listener, life: Lifecycle) {
        loop {
            let permit = tokio::select! {
                () = life.stopping() => break,
                permit = self.admission.ready() => permit,
            };
            let (stream, peer) = tokio::select! {
                () = life.stopping() => break,
                accepted = listener.accept() => match accepted {
                    Ok(accepted) => accepted,
                    // The client closed the connection before it was accepted.
                    Err(error) if is_clients_fault(&error) => continue,
                    Err(error) => {
                        // Most likely the process is out of file descriptors. Wait until
                        // connections end.
                        tracing::warn!(%error, "cannot accept a connection");
                        if let Admission::Bounded(table) = &self.admission {
                            table.evict();
                        }
                        tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                        continue;
                    }
                },
            };
            if let Some(place) = self.admission.place(permit, self.bounded_address(peer)) {
                let connection = Arc::clone(&self).serve_connection(stream, peer, place, life.clone());
                life.spawn("connection", self.connections.track_future(connection));
            }
        }
        drop(listener);
        self.stop.cancel();
        self.connections.close();
        let _ = tokio::time::timeout(life.grace(), self.connections.wait()).await;
        self.abort.cancel();
    }

    /// Returns the address whose connections are limited. Those of a trusted proxy belong to many
    /// clients.
    fn bounded_address(&self, client: Option<SocketAddr>) -> Option<IpAddr> {
        client.map(|client| client.ip()).filter(|address| !self.options.transport.is_trusted_proxy(*address))
    }

    async fn serve_connection(
        self: Arc<Self>,
        stream: Stream,
        peer: Option<SocketAddr>,
        mut place: Place,
        life: Lifecycle,
    ) {
        let watch = Watch::new(&place, &self.options.limits);
        if let Some(watch) = &watch {
            watch.activity.start();
        }
        let established = tokio::select! {
            () = self.stop.cancelled() => return,
            () = evicted(watch.as_ref()) => return,
            established = tokio::time::timeout(
                self.options.limits.header_timeout,
                self.options.transport.establish(stream, peer),
            ) => established,
        };
        let (stream, client) = match established {
            Ok(Ok(established)) => established,
            Ok(Err(error)) => return tracing::debug!(%error, "cannot establish a connection"),
            Err(_) => return tracing::debug!("a connection was not established in time"),
        };
        if let (Place::Counted(slot), Some(address)) = (&mut place, self.bounded_address(client))
            && slot.set_address(address).is_err()
        {
            return;
        }
        let limits = &self.options.limits;
        let counted = watch.as_ref().map(|watch| Arc::clone(&watch.activity));
        let unread_body = UnreadBody::default();
        let service = service(self.router.clone(), client, counted, *limits, unread_body.clone(), life);
        let stream = TokioIo::new(TimeoutStream::new(stream, limits, place, unread_body));
        let connection = self.builder.serve_connection_with_upgrades(stream, service);
        if let Err(error) = self.drive(connection, watch.as_ref()).await {
            tracing::debug!(%error, "connection ended early");
        }
    }

    /// Runs a connection until it ends by itself, or until shutdown or a limit ends it.
    async fn drive<C: GracefulConnection>(&self, connection: C, watch: Option<&Watch>) -> Result<(), C::Error> {
        let mut connection = pin!(connection);
        let (mut stopped, mut aborted) = (pin!(self.stop.cancelled()), pin!(self.abort.cancelled()));
        let mut evicted = pin!(evicted(watch));
        let mut closing_at = None;
        loop {
            let next_look = match watch.map(|watch| watch.due(closing_at)) {
                None => None,
                Some(Due::Wait(until)) => Some(until),
                Some(Due::Close(reason)) => {
                    tracing::debug!(reason, "told a connection to close");
                    connection.as_mut().graceful_shutdown();
                    closing_at = Some(Instant::now());
                    continue;
                }
                Some(Due::Cut(reason)) => {
                    tracing::debug!(reason, "connection cut");
                    return Ok(());
                }
            };
            let look = async {
                match next_look {
                    Some(next_look) => tokio::time::sleep_until(next_look).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                ended = connection.as_mut() => return ended,
                () = aborted.as_mut() => {
                    tracing::debug!("connection cut: its requests did not finish in time");
                    return Ok(());
                }
                () = stopped.as_mut(), if closing_at.is_none() => {
                    connection.as_mut().graceful_shutdown();
                    closing_at = Some(Instant::now());
                }
                () = evicted.as_mut(), if closing_at.is_none() => {
                    if watch.is_some_and(Watch::evict) {
                        return Ok(());
                    }
                    connection.as_mut().graceful_shutdown();
                    closing_at = Some(Instant::now());
                }
                () = look => {}
            }
        }
    }
}

/// Waits until the connection must make room for another one.
async fn evicted(watch: Option<&Watch>) {
    match watch {
        Some(watch) => watch.activity.evicted().await,
        None => std::future::pending().await,
    }
}

/// A public connection with its limits.
struct Watch {
    activity: Arc<ConnectionActivity>,
    table: ConnectionTable,
    limits: ListenerLimits,
    public: PublicLimits,
}

impl Watch {
    /// Returns `None` for connections between services.
    fn new(place: &Place, limits: &ListenerLimits) -> Option<Self> {
        let (Place::Counted(slot), Some(public)) = (place, limits.public) else { return None };
        let (activity, table) = (Arc::clone(slot.activity()), slot.table().clone());
        Some(Self { activity, table, limits: *limits, public })
    }

    /// Returns what is due, and counts the connection if it must end.
    fn due(&self, closing_at: Option<Instant>) -> Due {
        let due = self.activity.due(Instant::now(), &self.limits, &self.public, closing_at);
        match due {
            Due::Close(reason) => self.table.count_closed(reason),
            // Already counted when it was told to go away.
            Due::Cut(reason) if closing_at.is_none() => self.table.count_closed(reason),
            Due::Cut(_) | Due::Wait(_) => {}
        }
        due
    }

    /// Counts an evicted connection. Returns whether it may end at once because it has no request.
    fn evict(&self) -> bool {
        self.table.count_closed("evicted");
        self.activity.idle_since().is_some()
    }
}

fn is_clients_fault(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::Interrupted
    )
}

fn builder(limits: &ListenerLimits) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    // For public clients, `activity` tells the time for a header from the idle time before it.
    let header_read_timeout = limits.public.is_none().then_some(limits.header_timeout);
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(header_read_timeout)
        .max_buf_size(limits.header_bytes.max(8 * 1024))
        .keep_alive(true);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(Duration::from_secs(20))
        .keep_alive_timeout(Duration::from_secs(20))
        .max_header_list_size(u32::try_from(limits.header_bytes).unwrap_or(u32::MAX))
        .max_concurrent_streams(limits.streams)
        .initial_stream_window_size(limits.stream_window_bytes)
        .initial_connection_window_size(limits.connection_window_bytes);
    if limits.public.is_some() {
        builder.http2().max_send_buf_size(PUBLIC_SEND_BUFFER_BYTES);
    }
    builder
}

fn service(
    router: Router,
    peer: Option<SocketAddr>,
    activity: Option<Arc<ConnectionActivity>>,
    limits: ListenerLimits,
    unread_body: UnreadBody,
    life: Lifecycle,
) -> impl hyper::service::Service<
    Request<Incoming>,
    Response = http::Response<TrackedBody>,
    Error = std::convert::Infallible,
    Future = impl Future<Output = Result<http::Response<TrackedBody>, std::convert::Infallible>> + Send + 'static,
> + Clone {
    hyper::service::service_fn(move |mut request: Request<Incoming>| {
        if let Some(peer) = peer {
            request.extensions_mut().insert(Peer(peer));
        }
        let counted = activity.as_ref().map(ConnectionActivity::begin_request);
        // Over HTTP/1 a client that does not read blocks the socket, which has its own minimum
        // rate.
        let is_http2 = request.version() == Version::HTTP_2;
        if !is_http2 {
            request.extensions_mut().insert(unread_body.clone());
        }
        let min_rate = is_http2.then(|| limits.response_rate());
        let response = router.clone().oneshot(request.map(axum::body::Body::new));
        let life = life.clone();
        async move {
            let Ok(mut response) = response.await;
            // Move the client's next request to another connection before this one is closed.
            if !is_http2 && life.is_draining() && response.status() != StatusCode::SWITCHING_PROTOCOLS {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            let permit = response.extensions_mut().remove::<RequestPermit>();
            Ok(response.map(|body| TrackedBody::new(body, counted, permit, min_rate)))
        }
    })
}

#[cfg(test)]
mod tests;
