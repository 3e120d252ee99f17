//! Serves an axum router over HTTP/1.1 and HTTP/2 on the same port until the process stops.
//!
//! Not here: timeouts of a single connection, which are in `timeout_stream`.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use futures_util::future::BoxFuture;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::timeout_stream::TimeoutStream;
use crate::lifecycle::Lifecycle;
use crate::net::Listener;

/// Time between two attempts to accept a connection after a failure of the system.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// Limits of one listener.
#[derive(Clone, Copy, Debug)]
pub struct ListenerLimits {
    /// Most connections at once. Further ones wait in the listen queue of the kernel.
    pub connections: usize,
    /// Longest time in which a client must send the headers of a request.
    pub header_timeout: Duration,
    /// Longest time for which a client may accept no byte of a response.
    pub write_timeout: Duration,
    /// Most bytes of request line and headers.
    pub header_bytes: usize,
}

impl Default for ListenerLimits {
    fn default() -> Self {
        let (header_timeout, write_timeout) = (Duration::from_secs(15), Duration::from_secs(120));
        Self { connections: 4096, header_timeout, write_timeout, header_bytes: 64 * 1024 }
    }
}

/// The address of the client of a connection, in the extensions of its requests. Absent over Unix sockets.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub SocketAddr);

/// Serves `router` on `listener` until `life` stops, then lets requests in flight finish within the grace period.
///
/// The future is boxed so that the HTTP server is compiled once, in this crate, and not in every crate that polls it.
pub fn serve(listener: Listener, router: Router, limits: ListenerLimits, life: Lifecycle) -> BoxFuture<'static, ()> {
    Box::pin(accept(listener, router, limits, life))
}

async fn accept(listener: Listener, router: Router, limits: ListenerLimits, life: Lifecycle) {
    let builder = Arc::new(builder(limits));
    let graceful = GracefulShutdown::new();
    let abort = CancellationToken::new();
    let slots = Arc::new(Semaphore::new(limits.connections));
    loop {
        let slot = tokio::select! {
            () = life.stopping() => break,
            slot = Arc::clone(&slots).acquire_owned() => slot.expect("the semaphore is never closed"),
        };
        let (stream, peer) = tokio::select! {
            () = life.stopping() => break,
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                // The client closed the connection before it was accepted.
                Err(error) if is_clients_fault(&error) => continue,
                Err(error) => {
                    // Most likely the process is out of file descriptors: wait until connections end.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                    continue;
                }
            },
        };
        let watcher = graceful.watcher();
        let builder = Arc::clone(&builder);
        let router = router.clone();
        let abort = abort.clone();
        life.spawn("connection", async move {
            let stream = TimeoutStream::new(stream, limits.header_timeout, limits.write_timeout);
            let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service(router, peer));
            tokio::select! {
                () = abort.cancelled() => tracing::debug!("connection cut: its requests did not finish in time"),
                ended = watcher.watch(connection.into_owned()) => if let Err(error) = ended {
                    tracing::debug!(%error, "connection ended early");
                },
            }
            drop(slot);
        });
    }
    drop(listener);
    let _ = tokio::time::timeout(life.grace(), graceful.shutdown()).await;
    abort.cancel();
}

/// Serves `router` on all `listeners` until `life` stops.
pub fn serve_all(
    listeners: Vec<Listener>,
    router: Router,
    limits: ListenerLimits,
    life: &Lifecycle,
) -> BoxFuture<'static, ()> {
    let life = life.clone();
    Box::pin(async move {
        let start = |listener| life.spawn("listener", serve(listener, router.clone(), limits, life.clone()));
        let tasks: Vec<_> = listeners.into_iter().map(start).collect();
        for task in tasks {
            let _ = task.await;
        }
    })
}

/// Returns whether the client caused the failure to accept its connection.
fn is_clients_fault(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::Interrupted
    )
}

fn builder(limits: ListenerLimits) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        .max_buf_size(limits.header_bytes.max(8 * 1024))
        .keep_alive(true);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(Duration::from_secs(20))
        .keep_alive_timeout(Duration::from_secs(20))
        .max_header_list_size(u32::try_from(limits.header_bytes).unwrap_or(u32::MAX))
        .max_concurrent_streams(1024)
        .initial_stream_window_size(1024 * 1024)
        .initial_connection_window_size(4 * 1024 * 1024);
    builder
}

fn service(
    router: Router,
    peer: Option<SocketAddr>,
) -> impl hyper::service::Service<
    Request<Incoming>,
    Response = axum::response::Response,
    Error = std::convert::Infallible,
    Future = impl Future<Output = Result<axum::response::Response, std::convert::Infallible>> + Send,
> + Clone {
    hyper::service::service_fn(move |mut request: Request<Incoming>| {
        if let Some(peer) = peer {
            request.extensions_mut().insert(Peer(peer));
        }
        router.clone().oneshot(request.map(axum::body::Body::new))
    })
}

#[cfg(test)]
mod tests;
