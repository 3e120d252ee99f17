//! The private listener of every process: `/livez`, `/readyz` and `/metrics`.
//!
//! Not here: anything a client may see. This listener is never public.

use std::future::Future;
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use metrics_exporter_prometheus::PrometheusHandle;

use crate::Lifecycle;
use crate::net::Listener;
use crate::serve::{Limits, serve};

const PROBE_INTERVAL: Duration = Duration::from_secs(1);
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);
/// Failures in a row before a process says that it is not ready: one slow answer is not an outage.
const FAILURES: u32 = 3;

/// Serves the private listener until the process stops.
pub async fn serve_admin(listener: Listener, metrics: PrometheusHandle, life: Lifecycle) {
    let ready = life.clone();
    let router = Router::new()
        .route("/livez", get(|| async { "ok" }))
        .route(
            "/readyz",
            get(move || {
                let ready = ready.is_ready();
                async move { if ready { (StatusCode::OK, "ready") } else { (StatusCode::SERVICE_UNAVAILABLE, "not ready") } }
            }),
        )
        .route("/metrics", get(move || std::future::ready(metrics.render())));
    serve(listener, router, Limits { connections: 64, ..Limits::default() }, life).await;
}

/// Keeps readiness true to `probe`: ready after the first success, unready after several failures in a row.
pub async fn watch_readiness<P, F, E>(probe: P, life: Lifecycle)
where
    P: Fn() -> F + Send + 'static,
    F: Future<Output = Result<(), E>> + Send,
    E: std::fmt::Display + Send,
{
    let mut failures = 0;
    while !life.is_stopping() {
        let outcome = tokio::time::timeout(PROBE_TIMEOUT, probe()).await;
        match outcome {
            Ok(Ok(())) => {
                failures = 0;
                life.set_ready(true);
            }
            Ok(Err(error)) => {
                failures += 1;
                tracing::warn!(%error, failures, "readiness probe failed");
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
        let pause = if life.is_ready() || failures >= FAILURES { PROBE_INTERVAL } else { PROBE_INTERVAL / 20 };
        tokio::select! {
            () = life.stopping() => break,
            () = tokio::time::sleep(pause) => {}
        }
    }
}
