//! The private listener of every process: `/livez`, `/readyz` and `/metrics`.
//!
//! Not here: anything a client may see. This listener is never public.

use std::future::Future;
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use futures_util::future::BoxFuture;
use metrics_exporter_prometheus::PrometheusHandle;

use super::serve::{ListenerLimits, serve};
use crate::lifecycle::Lifecycle;
use crate::net::Listener;

const PROBE_INTERVAL: Duration = Duration::from_secs(1);
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);
/// Failures in a row before a process says that it is not ready: one slow answer is not an outage.
const FAILURES: u32 = 3;
/// Probes of a process that was never ready, one every 50 ms, before their failures are worth a line.
const STARTING: u32 = 60;

/// Serves the private listener until the process stops.
pub fn serve_admin(listener: Listener, metrics: PrometheusHandle, life: Lifecycle) -> BoxFuture<'static, ()> {
    let ready = life.clone();
    let router =
        Router::new()
            .route("/livez", get(|| async { "ok" }))
            .route(
                "/readyz",
                get(move || {
                    let ready = ready.is_ready();
                    async move {
                        if ready { (StatusCode::OK, "ready") } else { (StatusCode::SERVICE_UNAVAILABLE, "not ready") }
                    }
                }),
            )
            .route("/metrics", get(move || std::future::ready(metrics.render())));
    serve(listener, router, ListenerLimits { connections: 64, ..ListenerLimits::default() }, life)
}

/// Keeps readiness true to `probe`: ready after the first success, unready after several failures in a row.
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
                // Before the first success the others are still starting: that is no news until it lasts.
                if has_been_ready || failures > STARTING {
                    tracing::warn!(%error, failures, "readiness probe failed");
                }
            }
            Err(_) => {
                failures += 1;
                tracing::warn!(failures, "readiness probe timed out");
            }
        }
        if failures >= FAILURES {
            life.set_ready(false);
        }
        // Before the first success nothing else can be done: ask again soon.
        let pause = if has_been_ready || failures >= STARTING { PROBE_INTERVAL } else { PROBE_INTERVAL / 20 };
        tokio::select! {
            () = life.stopping() => break,
            () = tokio::time::sleep(pause) => {}
        }
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
    async fn probes_tell_life_from_readiness() {
        let life = Lifecycle::new(Duration::from_secs(2));
        let listener = Address::Tcp("127.0.0.1:0".into()).bind().await.unwrap();
        let address = listener.address().unwrap();
        let metrics = PrometheusBuilder::new().build_recorder().handle();
        life.spawn("admin", serve_admin(listener, metrics, life.clone()));
        assert!(get(&address, "/livez").await.starts_with("HTTP/1.0 200"));
        assert!(get(&address, "/readyz").await.starts_with("HTTP/1.0 503"));
        life.set_ready(true);
        assert!(get(&address, "/readyz").await.starts_with("HTTP/1.0 200"));
        assert!(get(&address, "/metrics").await.starts_with("HTTP/1.0 200"));
        life.stop();
        assert!(life.finished().await);
    }

    #[tokio::test]
    async fn one_failure_is_no_outage_and_three_are() {
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
