//! The gRPC client channel: connections to one service, balanced in turn, with deadline, trace and service token on each call.
//!
//! Not here: retries, which are in `retry`.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{HeaderValue, Request, Uri};
use hyper_util::rt::TokioIo;
use tonic::body::Body;
use tonic::transport::Endpoint;
use tower::{Service, ServiceBuilder, ServiceExt, service_fn};

use super::retry::Retry;
use super::timeout::LONG_DEADLINE;
use crate::net::Address;
use crate::service_key::ServiceTokenSource;
use crate::telemetry;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Connections of one channel. A single HTTP/2 connection is the first bottleneck under load.
const CONNECTIONS_PER_CHANNEL: usize = 2;

/// A client channel to one service. Connects when it is first used, and again after a connection is lost. Each call gets a deadline,
/// the current trace and a service token; calls that change nothing are retried on `UNAVAILABLE`.
#[derive(Clone)]
pub struct Channel {
    inner: tower::util::BoxCloneSyncService<Request<Body>, http::Response<Body>, tonic::transport::Error>,
    token_source: Option<Arc<ServiceTokenSource>>,
}

impl std::fmt::Debug for Channel {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Channel").finish_non_exhaustive()
    }
}

/// Returns a channel to the service at `address` whose calls carry a token of `token_source`, if there is one.
///
/// # Panics
/// When called outside a tokio runtime.
#[must_use]
pub fn channel(address: &Address, token_source: Option<Arc<ServiceTokenSource>>) -> Channel {
    let connections: Vec<_> = (0..CONNECTIONS_PER_CHANNEL).map(|_| connection(address.clone())).collect();
    let next = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let balanced = service_fn(move |request: Request<Body>| {
        let index = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed) % CONNECTIONS_PER_CHANNEL;
        connections[index].clone().oneshot(request)
    });
    let inner = ServiceBuilder::new().layer_fn(Retry::new).service(balanced);
    Channel { inner: tower::util::BoxCloneSyncService::new(inner), token_source }
}

fn connection(address: Address) -> tonic::transport::Channel {
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
            let address = address.clone();
            async move { address.connect().await.map(TokioIo::new) }
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
        if let Some(token_source) = &self.token_source
            && let Ok(value) = HeaderValue::try_from(token_source.token())
        {
            request.headers_mut().insert(ferrite_proto::metadata::SERVICE, value);
        }
        self.inner.call(request)
    }
}
