//! The gRPC client channel: connections to one service, balanced in turn, with deadline, trace and service token on each call.
//!
//! Not here: retries, which are in `retry`.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use ferrite_proto::ServiceRole;
use http::{HeaderValue, Request, Uri};
use hyper_util::rt::TokioIo;
use tonic::body::Body;
use tonic::transport::Endpoint;
use tower::{Service, ServiceBuilder, ServiceExt, service_fn};

use super::retry::Retry;
use super::timeout::LONG_DEADLINE;
use crate::net::{Address, Stream};
use crate::service_key::ServiceTokenSource;
use crate::telemetry;
use crate::tls::ClientTls;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Connections of one channel. A single HTTP/2 connection is the first bottleneck under load.
const CONNECTIONS_PER_CHANNEL: usize = 2;

/// A client channel to one service. Connects when it is first used, and again after a connection is lost. Each call gets a deadline,
/// the current trace and a service token; calls that change nothing are retried on `UNAVAILABLE`.
#[derive(Clone)]
pub struct Channel {
    inner: tower::util::BoxCloneSyncService<Request<Body>, http::Response<Body>, tonic::transport::Error>,
    credentials: Option<ChannelCredentials>,
}

/// Proofs of this process's role to one service: a token on every request, and a certificate on the connection where TLS is on.
#[derive(Clone, Debug)]
pub struct ChannelCredentials {
    token_source: Arc<ServiceTokenSource>,
    audience: ServiceRole,
    tls: Option<ClientTls>,
}

impl ChannelCredentials {
    /// Returns credentials for a service with the role `audience`, without TLS.
    #[must_use]
    pub fn new(token_source: Arc<ServiceTokenSource>, audience: ServiceRole) -> Self {
        Self { token_source, audience, tls: None }
    }

    /// Returns these credentials with TLS over TCP, if there is a certificate.
    #[must_use]
    pub fn with_tls(self, tls: Option<ClientTls>) -> Self {
        Self { tls, ..self }
    }

    /// Returns the token of a request.
    #[must_use]
    pub fn token(&self) -> Arc<str> {
        self.token_source.token(self.audience)
    }

    /// Opens a connection, over TCP with TLS where it is on.
    ///
    /// # Errors
    /// When the connection is refused, the address does not resolve, or one side does not accept the certificate of the other.
    pub async fn connect(&self, address: &Address) -> std::io::Result<Stream> {
        match &self.tls {
            Some(tls) => address.connect_with_tls(tls).await,
            None => address.connect().await,
        }
    }
}

impl std::fmt::Debug for Channel {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Channel").finish_non_exhaustive()
    }
}

/// Returns a channel to the service at `address` whose connections and calls carry `credentials`, if there are any.
///
/// # Panics
/// When called outside a tokio runtime.
#[must_use]
pub fn channel(address: &Address, credentials: Option<ChannelCredentials>) -> Channel {
    let connections: Vec<_> =
        (0..CONNECTIONS_PER_CHANNEL).map(|_| connection(address.clone(), credentials.clone())).collect();
    let next = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let balanced = service_fn(move |request: Request<Body>| {
        let index = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed) % CONNECTIONS_PER_CHANNEL;
        connections[index].clone().oneshot(request)
    });
    let inner = ServiceBuilder::new().layer_fn(Retry::new).service(balanced);
    Channel { inner: tower::util::BoxCloneSyncService::new(inner), credentials }
}

fn connection(address: Address, credentials: Option<ChannelCredentials>) -> tonic::transport::Channel {
    // The host is for the `:authority` header only: the connector dials `address`.
    let authority = match &address {
        Address::Tcp(authority) => format!("http://{authority}"),
        Address::Unix(_) => "http://localhost".to_owned(),
    };
    Endpoint::try_from(authority)
        .unwrap_or_else(|_| Endpoint::from_static("http://localhost"))
        .connect_timeout(CONNECT_TIMEOUT)
        // The deadline of each call is that of `Retry`, which is this one or earlier.
        .timeout(LONG_DEADLINE)
        .http2_keep_alive_interval(Duration::from_secs(20))
        .keep_alive_timeout(Duration::from_secs(10))
        .keep_alive_while_idle(true)
        .initial_stream_window_size(1024 * 1024)
        .initial_connection_window_size(4 * 1024 * 1024)
        .connect_with_connector_lazy(service_fn(move |_: Uri| {
            let (address, credentials) = (address.clone(), credentials.clone());
            async move {
                let stream = match &credentials {
                    Some(credentials) => credentials.connect(&address).await,
                    None => address.connect().await,
                };
                stream.map(TokioIo::new)
            }
        }))
}

impl Service<Request<Body>> for Channel {
    type Response = http::Response<Body>;
    type Error = tonic::transport::Error;
    type Future =
        <tower::util::BoxCloneSyncService<Request<Body>, http::Response<Body>, tonic::transport::Error> as Service<
            Request<Body>,
        >>::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        telemetry::inject(request.headers_mut());
        if let Some(credentials) = &self.credentials
            && let Ok(value) = HeaderValue::from_str(&credentials.token())
        {
            request.headers_mut().insert(ferrite_proto::metadata::SERVICE, value);
        }
        self.inner.call(request)
    }
}
