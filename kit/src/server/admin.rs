//! The private listener of every process (`/livez`, `/readyz`, `/metrics`) and the probe that sets its readiness.
//!
//! Not here: routes for clients. This listener is never public.

use std::future::Future;
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use futures_util::future::BoxFuture;
use metrics_exporter_prometheus::PrometheusHandle;

use super::limits::ListenerLimits;
use super::serve::serve;
use crate::lifecycle::Lifecycle;
use crate::net::Listener;
use crate::telemetry;

const PROBE_INTERVAL: Duration = Duration::from_secs(1);
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);
/// Probe failures in a row after which a process is unready: one slow response is not an outage.
const MAX_PROBE_FAILURES: u32 = 3;
/// Probe failures of a process that was never ready (one every 50 ms) that are not logged.
const MAX_START_FAILURES: u32 = 60;

/// Serves the private listener until `life` stops.
pub fn serve_admin(listener: Listener, metrics: PrometheusHandle, life: Lifecycle) -> BoxFuture<'static, ()> {
    let ready = life.clone();
    let router = Router::new()
        .route("/livez", get(|| async { "ok" }))
        .route(
            "/readyz",
            get(move || {
                let answer = if ready.is_ready() {
                    (StatusCode::OK, "ready".to_owned())
                } else {
                    (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {}", ready.unready_reason()))
                };
                std::future::ready(answer)
            }),
        )
        .route(
            "/metrics",
            get(move || {
                telemetry::collect_process_metrics();
                std::future::ready(metrics.render())
            }),
        );
    serve(listener, router, ListenerLimits { connections: 64, ..ListenerLimits::default() }.into(), life)
}

/// Sets the readiness of the process by `probe`: ready after a success, unready after several failures in a row.
pub async fn watch_readiness<P, F, E>(probe: P, life: Lifecycle)
where
    P: Fn() -> F + Send + 'static,
    F: Future<Output = Result<(), E>> + Send,
    E: std::fmt::Display + Send,
{
    let mut failures = 0;
    let mut has_been_ready = false;
    while !life.is_stopping() {
        let outcome = tokio::time::timeout(PROBE_TIMEOUT, probe()).await;
        match outcome {
            Ok(Ok(())) => {
                failures = 0;
                has_been_ready = true;
                life.set_ready(true);
            }
            Ok(Err(error)) => {
                failures += 1;
                life.set_unready_reason(error.to_string());
                // Before the first success other processes are still starting, so failures are expected for a while.
                if has_been_ready || failures > MAX_START_FAILURES {
                    tracing::warn!(%error, failures, "readiness probe failed");
                }
            }
            Err(_) => {
                failures += 1;
                life.set_unready_reason("the readiness probe gets no answer in time");
                tracing::warn!(failures, "readiness probe timed out");
            }
        }
        if failures >= MAX_PROBE_FAILURES {
            life.set_ready(false);
        }
        // Probes are more frequent until the first success, so that a start takes no longer than it must.
        let interval =
            if has_been_ready || failures >= MAX_START_FAILURES { PROBE_INTERVAL } else { PROBE_INTERVAL / 20 };
        life.pause(interval).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use metrics_exporter_prometheus::PrometheusBuilder;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::net::Address;
    use crate::testing::eventually;

    async fn get(address: &Address, path: &str) -> String {
        let mut stream = address.connect().await.unwrap();
        stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn liveness_does_not_depend_on_readiness() {
        let life = Lifecycle::new(Duration::from_secs(2));
        let listener = Address::Tcp("127.0.0.1:0".into()).bind().await.unwrap();
        let address = listener.address().unwrap();
        let metrics = PrometheusBuilder::new().build_recorder().handle();
        life.spawn("admin", serve_admin(listener, metrics, life.clone()));
        assert!(get(&address, "/livez").await.starts_with("HTTP/1.0 200"));
        assert!(get(&address, "/readyz").await.starts_with("HTTP/1.0 503"));
        assert!(get(&address, "/readyz").await.ends_with("not ready: starting"));
        life.set_unready_reason("no database");
        assert!(get(&address, "/readyz").await.ends_with("not ready: no database"));
        life.set_ready(true);
        assert!(get(&address, "/readyz").await.starts_with("HTTP/1.0 200"));
        assert!(get(&address, "/metrics").await.starts_with("HTTP/1.0 200"));
        life.stop();
        assert!(life.finished().await);
    }

    #[tokio::test]
    async fn a_process_is_unready_after_three_probe_failures() {
        let life = Lifecycle::new(Duration::from_secs(2));
        let fails = Arc::new(AtomicBool::new(true));
        let (seen, probed) = (Arc::clone(&fails), life.clone());
        let probe = move || {
            let fails = seen.load(Ordering::SeqCst);
            async move { if fails { Err("down") } else { Ok(()) } }
        };
        life.spawn("probe", watch_readiness(probe, probed));
        tokio::time::sleep(PROBE_INTERVAL / 2).await;
        assert!(!life.is_ready(), "never before the first success");
        fails.store(false, Ordering::SeqCst);
        eventually("ready", || async { life.is_ready() }).await;
        fails.store(true, Ordering::SeqCst);
        tokio::time::sleep(PROBE_INTERVAL * 3 / 2).await;
        assert!(life.is_ready(), "one failure, or two");
        eventually("not ready", || async { !life.is_ready() }).await;
        life.stop();
        assert!(life.finished().await);
    }
}
