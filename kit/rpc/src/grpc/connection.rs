//! An HTTP/2 connection to a replica, opened by the first call and reopened after it was lost.
//!
//! tonic's channel has a task between a call and its connection, which costs a task switch per
//! call. Here a call goes to the connection directly.

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
/// Idle time after which a connection is pinged, and the time to respond. After both, the calls on
/// the connection fail. Not over a Unix socket, where no network can drop packets: there a slow
/// response only means a busy CPU.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(5);
const LOCAL_KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(20);
const LOCAL_KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// Flow control windows of a response and of a connection.
const STREAM_WINDOW_BYTES: u32 = 1024 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 4 * 1024 * 1024;

/// A response, which may be an error status, or a failed connection.
pub(super) type CallResult = Result<Response<Body>, CallError>;

/// A call failed without a response.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// No connection could be opened. Nothing was sent.
    #[error("the service cannot be reached")]
    Connect(#[source] ConnectError),
    /// The connection was lost, or the service refused the call before its handler began.
    #[error("the connection failed")]
    Connection(#[source] hyper::Error),
}

/// Whether a status stands for a failed connection, before or during the response. Its code only
/// says that the cause is unknown, and a retry may succeed. A status that a service sent has no
/// source error.
#[must_use]
pub fn is_connection_lost(status: &Status) -> bool {
    std::error::Error::source(status).is_some()
}

/// Whether a status means that no connection could be opened, so that the service has not seen the
/// call.
#[must_use]
pub fn is_unsent(status: &Status) -> bool {
    let cause = std::error::Error::source(status).and_then(|cause| cause.downcast_ref::<CallError>());
    matches!(cause, Some(CallError::Connect(_)))
}

/// The address of a replica in the settings, and if it has a host name, one of the addresses that
/// it resolves to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) address: Address,
    pub(super) socket: Option<SocketAddr>,
}

#[derive(Debug)]
pub(super) struct Connection {
    target: Target,
    credentials: Option<ChannelCredentials>,
    /// For the `:authority` header only; `target` is dialled.
    authority: Authority,
    builder: Builder<TokioExecutor>,
    /// `None` before the first call. Locked while a connection is being opened, so that other calls
    /// wait for it.
    sender: Mutex<Option<SendRequest<Body>>>,
}

impl Connection {
    /// Returns a connection to `target` that is not open yet.
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

    /// Makes a call. Fails if no connection can be opened, or if it is lost before the response
    /// begins. Error statuses of the service are responses.
    pub(super) async fn send(&self, mut request: Request<Body>) -> CallResult {
        let mut sender = self.sender().await.map_err(CallError::Connect)?;
        let mut uri = std::mem::take(request.uri_mut()).into_parts();
        uri.scheme = Some(Scheme::HTTP);
        uri.authority = Some(self.authority.clone());
        *request.uri_mut() = Uri::from_parts(uri).unwrap_or_default();
        let response = sender.send_request(request).await;
        response.map(|response| response.map(Body::new)).map_err(CallError::Connection)
    }

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
        // Ends with its last sender and the calls on it.
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
