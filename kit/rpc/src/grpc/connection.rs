//! An HTTP/2 connection to a replica: opened by the first call, and again by the first one after it was lost.
//!
//! The channel of `tonic` has a task between a call and its connection, which costs each call a change of tasks; here a call hands itself
//! to the connection. Deadlines and retries are in `retry`, the choice of a connection in `replicas`.

use std::net::SocketAddr;
use std::time::Duration;

use ferrite_core::net::{Address, Stream};
use http::uri::{Authority, Scheme};
use http::{Request, Response, Uri};
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper::rt::Executor;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::sync::Mutex;
use tonic::body::Body;
use tonic::{ConnectError, Status};

use super::channel_credentials::ChannelCredentials;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Silence on a connection after which the replica is asked for a sign of life, and the time that it has for it. After both the calls on
/// the connection fail. Over a Unix socket there is no network that could swallow packets, only a busy processor.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(5);
const LOCAL_KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(20);
const LOCAL_KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// Flow control windows of a response, and of all responses of a connection.
const STREAM_WINDOW_BYTES: u32 = 1024 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 4 * 1024 * 1024;

/// The result of a call: a response, which may carry the status of an error, or a failure of the connection.
pub(super) type CallResult = Result<Response<Body>, CallError>;

/// A call without a response.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// No connection could be opened: nothing was sent.
    #[error("the service cannot be reached")]
    Connect(#[source] ConnectError),
    /// The connection was lost, or the service refused the call before its handler began.
    #[error("the connection failed")]
    Connection(#[source] hyper::Error),
}

/// Returns whether a status was made of a failure of the connection, before the call's response or within it: the code says no more than
/// that its cause is unknown, and the service may respond to the next call. A status that a service sent has no cause.
#[must_use]
pub fn is_connection_lost(status: &Status) -> bool {
    std::error::Error::source(status).is_some()
}

/// Returns whether a status was made because no connection could be opened, so that the service has not seen the call.
#[must_use]
pub fn is_unsent(status: &Status) -> bool {
    let cause = std::error::Error::source(status).and_then(|cause| cause.downcast_ref::<CallError>());
    matches!(cause, Some(CallError::Connect(_)))
}

/// Where a replica is: an address of the settings, and one of those that its host name stands for, if it has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) address: Address,
    pub(super) socket: Option<SocketAddr>,
}

/// A connection to a replica.
#[derive(Debug)]
pub(super) struct Connection {
    target: Target,
    credentials: Option<ChannelCredentials>,
    /// For the `:authority` header only: what is dialled is the target.
    authority: Authority,
    builder: Builder<TokioExecutor>,
    /// `None` before the first call. Held while a connection is opened, which further calls wait for.
    sender: Mutex<Option<SendRequest<Body>>>,
}

impl Connection {
    /// Returns a connection to `target` that is not opened yet.
    pub(super) fn new(target: Target, credentials: Option<ChannelCredentials>) -> Self {
        let local = (Authority::from_static("localhost"), LOCAL_KEEP_ALIVE_INTERVAL, LOCAL_KEEP_ALIVE_TIMEOUT);
        let (authority, interval, timeout) = match &target.address {
            Address::Tcp(address) => (address.parse().unwrap_or(local.0), KEEP_ALIVE_INTERVAL, KEEP_ALIVE_TIMEOUT),
            Address::Unix(_) => local,
        };
        let mut builder = Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .keep_alive_interval(interval)
            .keep_alive_timeout(timeout)
            .keep_alive_while_idle(true)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES);
        Self { target, credentials, authority, builder, sender: Mutex::default() }
    }

    /// Makes a call.
    ///
    /// # Errors
    /// When no connection can be opened, or it fails before the head of the response. Refusals of the service are responses.
    pub(super) async fn send(&self, mut request: Request<Body>) -> CallResult {
        let mut sender = self.sender().await.map_err(CallError::Connect)?;
        let mut uri = std::mem::take(request.uri_mut()).into_parts();
        uri.scheme = Some(Scheme::HTTP);
        uri.authority = Some(self.authority.clone());
        *request.uri_mut() = Uri::from_parts(uri).unwrap_or_default();
        let response = sender.send_request(request).await;
        response.map(|response| response.map(Body::new)).map_err(CallError::Connection)
    }

    /// Returns the open connection; opens one if there is none.
    async fn sender(&self) -> Result<SendRequest<Body>, ConnectError> {
        let mut sender = self.sender.lock().await;
        if let Some(open) = sender.as_ref().filter(|sender| !sender.is_closed()) {
            return Ok(open.clone());
        }
        let opened = tokio::time::timeout(CONNECT_TIMEOUT, self.open()).await;
        let opened = opened.map_err(|late| ConnectError(late.into()))?.map_err(ConnectError)?;
        Ok(sender.insert(opened).clone())
    }

    async fn open(&self) -> Result<SendRequest<Body>, tower::BoxError> {
        let stream = TokioIo::new(self.dial().await?);
        let (sender, connection) = self.builder.handshake(stream).await?;
        // It ends with its last sender and the calls on it.
        TokioExecutor::new().execute(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to a service ended");
            }
        });
        Ok(sender)
    }

    async fn dial(&self) -> std::io::Result<Stream> {
        let Target { address, socket } = &self.target;
        match (*socket, &self.credentials) {
            (Some(socket), Some(credentials)) => credentials.connect_to(address, socket).await,
            (Some(socket), None) => address.connect_to(socket, None).await,
            (None, Some(credentials)) => credentials.connect(address).await,
            (None, None) => address.connect().await,
        }
    }
}
