//! HTTP/1.1 client of git-svc for packs and raw files. It has a connection pool of its own, so that
//! a large transfer never delays a gRPC call.
//!
//! Bodies are streamed, never collected. Dropping a response closes its connection, which stops the
//! work of git-svc.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use ferrite_core::net::{NoStoreAddress, StoreAddresses, Stream};
use ferrite_core::telemetry;
use ferrite_proto::git_transport::{GIT_PROTOCOL_HEADER, GitProtocol};
use ferrite_proto::metadata;
use ferrite_rpc::grpc::ChannelCredentials;
use http::{HeaderMap, HeaderValue, Request, Response, Uri, Version};
use hyper::body::Incoming;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::client::legacy::{Client, Error as ClientError};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tower::Service;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Pause before a retry while the store refuses connections, for example during a restart.
const RECONNECT_PAUSE: Duration = Duration::from_millis(100);
/// Idle timeout of a pooled connection. Shorter than that of git-svc, so that the pool never hands
/// out a connection that git-svc is closing.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_IDLE_CONNECTIONS: usize = 32;
/// Buffer per connection and direction.
const BUFFER_BYTES: usize = 64 * 1024;
/// git-svc's reason if a limit leaves no room. Its line of text names the limit.
pub(crate) const OVERLOADED: &str = "OVERLOADED";
/// Host in request URIs if there is only one store. Otherwise it is the store's name, by which
/// connections are pooled.
const AUTHORITY: &str = "git-svc";

/// Why a request to git-svc got no response.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GitClientError {
    /// No connection could be opened. The request was not sent and can be retried.
    #[error("git-svc cannot be reached")]
    Unavailable(#[source] ClientError),
    /// The settings have no address for the store. The request was not sent.
    #[error("git-svc has no address")]
    NoStore(#[from] NoStoreAddress),
    /// The connection was lost before the response. The request may have been carried out.
    #[error("git-svc did not respond")]
    Interrupted(#[source] ClientError),
    /// The request carries a user's access token, which is a bug of the gateway. It was not sent.
    #[error("request carries the access token of a user")]
    Token,
    /// The path is not a valid URI, which is a bug of the gateway.
    #[error("invalid path")]
    Path(#[from] http::Error),
}

/// A pool of HTTP/1.1 connections to the git stores; cheap to clone.
#[derive(Clone)]
pub(crate) struct GitHttpClient {
    client: Client<Connector, Body>,
    stores: StoreAddresses,
    credentials: ChannelCredentials,
}

impl GitHttpClient {
    #[must_use]
    pub(crate) fn new(stores: impl Into<StoreAddresses>, credentials: ChannelCredentials) -> Self {
        let stores = stores.into();
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(MAX_IDLE_CONNECTIONS)
            .http1_max_buf_size(BUFFER_BYTES)
            .build(Connector { stores: stores.clone(), credentials: credentials.clone() });
        Self { client, stores, credentials }
    }

    /// Sends `request`, whose URI is a path of git-svc, to the store in its header `ferrite-store`.
    /// Returns the response as soon as its headers have arrived, whatever its status. Adds the
    /// service credential and the trace context; the caller adds the grant with the store.
    pub(crate) async fn send(&self, request: Request<Body>) -> Result<Response<Incoming>, GitClientError> {
        let sent = self.try_send(request).await;
        sent.inspect_err(|error| tracing::warn!(error = error as &dyn std::error::Error, "no response from git-svc"))
    }

    async fn try_send(&self, mut request: Request<Body>) -> Result<Response<Incoming>, GitClientError> {
        if !self.credentials.may_send(request.headers()) {
            return Err(GitClientError::Token);
        }
        let store = request.headers().get(metadata::STORE).and_then(|store| store.to_str().ok()).unwrap_or_default();
        self.stores.of(store)?;
        let authority = if self.stores.is_single() { AUTHORITY } else { store };
        let path = request.uri().path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
        *request.uri_mut() = Uri::builder().scheme("http").authority(authority).path_and_query(path).build()?;
        *request.version_mut() = Version::HTTP_11;
        telemetry::inject(request.headers_mut());
        let token = HeaderValue::from_str(&self.credentials.token()).map_err(http::Error::from)?;
        request.headers_mut().insert(metadata::SERVICE, token);
        self.client.request(request).await.map_err(|error| {
            if error.is_connect() { GitClientError::Unavailable(error) } else { GitClientError::Interrupted(error) }
        })
    }
}

/// Returns git-svc's reason for a failure, or "none".
pub(crate) fn reason_of(headers: &HeaderMap) -> &str {
    headers.get(metadata::REASON).and_then(|reason| reason.to_str().ok()).unwrap_or("none")
}

pub(crate) fn set_git_protocol(headers: &mut HeaderMap, protocol: &GitProtocol) {
    if let Ok(value) = HeaderValue::from_str(protocol.as_str()) {
        headers.insert(GIT_PROTOCOL_HEADER, value);
    }
}

/// Connects to the store that is the host of a URI.
#[derive(Clone, Debug)]
struct Connector {
    stores: StoreAddresses,
    credentials: ChannelCredentials,
}

impl Service<Uri> for Connector {
    type Response = PooledStream;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<PooledStream>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let Self { stores, credentials } = self.clone();
        Box::pin(async move {
            let address = stores.of(uri.host().unwrap_or_default()).map_err(io::Error::other)?;
            let deadline = tokio::time::Instant::now() + CONNECT_TIMEOUT;
            loop {
                match tokio::time::timeout_at(deadline, credentials.connect(&address)).await? {
                    Ok(stream) => return Ok(PooledStream(TokioIo::new(stream))),
                    Err(error) if is_closed(&error) && tokio::time::Instant::now() + RECONNECT_PAUSE < deadline => {
                        tokio::time::sleep(RECONNECT_PAUSE).await;
                    }
                    Err(error) => return Err(error),
                }
            }
        })
    }
}

/// Whether nothing listens on the port or socket.
fn is_closed(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound)
}

#[derive(Debug)]
struct PooledStream(TokioIo<Stream>);

impl Connection for PooledStream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl Read for PooledStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl Write for PooledStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }
}

#[cfg(test)]
mod tests;
