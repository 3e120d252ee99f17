//! The gRPC client channel: calls to the replicas of one service, each with deadline, trace and
//! service token.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use ferrite_core::net::ServiceAddresses;
use ferrite_core::{telemetry, telemetry::ClientCall};
use http::{HeaderValue, Request};
use tokio::task::JoinSet;
use tonic::Status;
use tonic::body::Body;
use tower::Service;
use tracing::Instrument;

use super::channel_credentials::ChannelCredentials;
use super::connection::{CallError, CallResult};
use super::discovery::{Discovery, Resolver, system_resolver};
use super::replicas::ReplicaSet;
use super::retry;
use crate::version::VersionedCall;

/// A client channel to one service; cheap to clone. Connects on first use, and reconnects. Calls
/// are balanced over the replicas that are ready. Each call gets a deadline, the current trace and
/// a service token. Reads are retried on `UNAVAILABLE`, other calls only if they were never sent.
/// Calls with a user's access token are sent to repo-svc only. A [`VersionedCall`] in the
/// extensions of a request is sent with it.
#[derive(Clone, Debug)]
pub struct Channel(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    replicas: Arc<ReplicaSet>,
    credentials: Option<ChannelCredentials>,
    /// Discovery of replicas. Ends with the last clone of the channel.
    _discovery: JoinSet<()>,
}

/// Returns a channel to the service at `addresses`. Connections and calls carry `credentials`, if
/// given.
///
/// # Panics
/// Outside a tokio runtime.
#[must_use]
pub fn channel(addresses: impl Into<ServiceAddresses>, credentials: Option<ChannelCredentials>) -> Channel {
    channel_with_resolver(addresses.into(), credentials, system_resolver())
}

/// Like [`channel`], with host names resolved by `resolver`.
pub fn channel_with_resolver(
    addresses: ServiceAddresses,
    credentials: Option<ChannelCredentials>,
    resolver: Resolver,
) -> Channel {
    let discovery = Discovery::new(addresses, credentials.clone(), resolver);
    let replicas = discovery.replicas();
    let mut tasks = JoinSet::new();
    if discovery.is_needed() {
        tasks.spawn(discovery.run());
    }
    Channel(Arc::new(Inner { replicas, credentials, _discovery: tasks }))
}

impl Service<Request<Body>> for Channel {
    type Response = http::Response<Body>;
    type Error = CallError;
    type Future = Pin<Box<dyn Future<Output = CallResult> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        // Each attempt waits until its connection is ready.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let callee = self.0.credentials.as_ref().map_or("unknown", |credentials| credentials.audience().as_str());
        let call = ClientCall::begin(callee, request.uri().path());
        let span = call.span();
        span.in_scope(|| telemetry::inject(request.headers_mut()));
        if let Some(credentials) = &self.0.credentials {
            if !credentials.may_send(request.headers()) {
                tracing::error!(
                    callee,
                    path = request.uri().path(),
                    "did not send a call with a user's token to a service other than repo-svc"
                );
                return Box::pin(std::future::ready(Ok(Status::internal("internal error").into_http())));
            }
            if let Ok(value) = HeaderValue::from_str(&credentials.token()) {
                request.headers_mut().insert(ferrite_proto::metadata::SERVICE, value);
            }
        }
        let versioned = VersionedCall::send(&mut request);
        // Keeps the channel, and so the discovery of replicas, alive during the call.
        let channel = self.clone();
        Box::pin(async move {
            match retry::call(&channel.0.replicas, request).instrument(span).await {
                Ok(response) => {
                    if let Some(versioned) = versioned {
                        versioned.receive(response.headers());
                    }
                    Ok(call.response(response))
                }
                Err(error) => {
                    call.failed();
                    Err(error)
                }
            }
        })
    }
}
