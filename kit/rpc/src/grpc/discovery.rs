//! Keeps the replicas of a channel up to date: resolves host names and checks the health of the
//! replicas.
//!
//! Replicas speak gRPC's health protocol. A replica that stops reports that before it closes its
//! listener. A single replica is not checked, because there is no other one to call.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ferrite_core::net::ServiceAddresses;
use futures_util::future::{BoxFuture, join_all};
use http::Request;
use tokio::time::Instant;
use tonic::Code;
use tonic::body::Body;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tower::service_fn;

use super::channel_credentials::ChannelCredentials;
use super::connection::{Target, is_connection_lost};
use super::replicas::{Health, Replica, ReplicaSet};

const MAX_REPLICAS: usize = 16;
/// Interval between resolutions of host names. A failed call brings the next one forward.
const RESOLVE_INTERVAL: Duration = Duration::from_secs(5);
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(5);
const PROBE_INTERVAL: Duration = Duration::from_secs(1);
const PROBE_TIMEOUT: Duration = Duration::from_millis(1500);
/// Minimum interval between rounds, however many calls fail.
const MIN_INTERVAL: Duration = Duration::from_millis(200);

/// Resolves a `HOST:PORT`.
pub type Resolver = Arc<dyn Fn(String) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> + Send + Sync>;

/// Returns the system's resolver.
pub fn system_resolver() -> Resolver {
    Arc::new(|host| Box::pin(async move { tokio::net::lookup_host(host).await.map(Iterator::collect) }))
}

/// The background work of one channel.
pub(super) struct Discovery {
    addresses: ServiceAddresses,
    credentials: Option<ChannelCredentials>,
    resolver: Resolver,
    replicas: Arc<ReplicaSet>,
}

impl Discovery {
    pub(super) fn new(
        addresses: ServiceAddresses,
        credentials: Option<ChannelCredentials>,
        resolver: Resolver,
    ) -> Self {
        let fixed = addresses.iter().filter(|address| address.host_name().is_none());
        let target = |address: &ferrite_core::net::Address| Target { address: address.clone(), socket: None };
        let fixed = fixed.take(MAX_REPLICAS).map(|address| Replica::new(target(address), credentials.as_ref()));
        let fixed = fixed.map(Arc::new).collect();
        let is_complete = addresses.iter().all(|address| address.host_name().is_none());
        let replicas = Arc::new(ReplicaSet::new(fixed, is_complete));
        Self { addresses, credentials, resolver, replicas }
    }

    pub(super) fn replicas(&self) -> Arc<ReplicaSet> {
        Arc::clone(&self.replicas)
    }

    /// Whether there is more than one replica, or a host name.
    pub(super) fn is_needed(&self) -> bool {
        self.has_names() || self.replicas.is_several()
    }

    fn has_names(&self) -> bool {
        self.addresses.iter().any(|address| address.host_name().is_some())
    }

    pub(super) async fn run(self) {
        let mut resolved_at: Option<Instant> = None;
        let mut is_woken = false;
        loop {
            let begin = Instant::now();
            if self.has_names() && (is_woken || resolved_at.is_none_or(|at| at.elapsed() >= RESOLVE_INTERVAL)) {
                self.resolve().await;
                resolved_at = Some(Instant::now());
            }
            if self.replicas.is_several() {
                self.probe().await;
            }
            is_woken = tokio::select! {
                () = tokio::time::sleep(PROBE_INTERVAL) => false,
                () = self.replicas.look.notified() => true,
            };
            tokio::time::sleep_until(begin + MIN_INTERVAL).await;
        }
    }

    /// Resolves all host names. If that fails for a name, its addresses stay as they are.
    async fn resolve(&self) {
        let (replicas, resolver) = (self.replicas.all(), &self.resolver);
        let old = &replicas;
        let looks = self.addresses.iter().map(|address| async move {
            let Some(host) = address.host_name() else {
                return vec![Target { address: address.clone(), socket: None }];
            };
            let target = |socket| Target { address: address.clone(), socket: Some(socket) };
            match tokio::time::timeout(RESOLVE_TIMEOUT, (resolver)(host.to_owned())).await {
                Ok(Ok(sockets)) if !sockets.is_empty() => sockets.into_iter().map(target).collect(),
                failed => {
                    let error = failed.map_or_else(|late| late.to_string(), |found| format!("{:?}", found.err()));
                    tracing::debug!(%address, error, "cannot resolve a host name");
                    let known = old.iter().filter(|replica| replica.target.address == *address);
                    known.map(|replica| replica.target.clone()).collect()
                }
            }
        });
        let mut targets = Vec::new();
        for target in join_all(looks).await.into_iter().flatten() {
            if !targets.contains(&target) {
                targets.push(target);
            }
        }
        // Prefer connected replicas: name servers return addresses in any order.
        targets.sort_by_key(|target| !old.iter().any(|replica| replica.target == *target));
        let known = |target: &Target| old.iter().find(|replica| replica.target == *target).cloned();
        let new = targets
            .into_iter()
            .take(MAX_REPLICAS)
            .map(|target| known(&target).unwrap_or_else(|| Arc::new(Replica::new(target, self.credentials.as_ref()))));
        self.replicas.replace(new.collect());
    }

    async fn probe(&self) {
        let replicas = self.replicas.all();
        let questions = replicas.iter().map(|replica| async move { replica.note_probe(health_of(replica).await) });
        join_all(questions).await;
    }
}

/// Returns the health of a replica; `None` if it does not respond in time.
async fn health_of(replica: &Replica) -> Option<Health> {
    let connection = replica.connection();
    let mut client = HealthClient::new(service_fn(|request: Request<Body>| connection.send(request)));
    let question = client.check(HealthCheckRequest::default());
    match tokio::time::timeout(PROBE_TIMEOUT, question).await {
        Err(_) => None,
        Ok(Ok(response)) => {
            let is_serving = response.into_inner().status() == ServingStatus::Serving;
            Some(if is_serving { Health::Serving } else { Health::NotServing })
        }
        // There is no connection, or it was lost.
        Ok(Err(status)) if status.code() == Code::Unavailable || is_connection_lost(&status) => {
            Some(Health::Unreachable)
        }
        // The replica responds, but does not support health checks.
        Ok(Err(_)) => Some(Health::Serving),
    }
}
