//! The private listener of every process (`/livez`, `/readyz`, `/metrics`). It must never be
//! public.

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use ferrite_core::Lifecycle;
use ferrite_core::net::Listener;
use ferrite_core::telemetry;
use futures_util::future::BoxFuture;
use metrics_exporter_prometheus::PrometheusHandle;

use super::limits::ListenerLimits;
use super::serve::serve;

/// Serves the private listener until `life` stops.
pub fn serve_admin(listener: Listener, metrics: PrometheusHandle, life: Lifecycle) -> BoxFuture<'static, ()> {
    let ready = life.clone();
    let router = Router::new()
        .route("/livez", get(|| async { "ok" }))
        .route(
            "/readyz",
            get(move || {
                let response = if ready.is_ready() {
                    (StatusCode::OK, "ready".to_owned())
                } else {
                    (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {}", ready.unready_reason()))
                };
                std::future::ready(response)
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ferrite_core::net::Address;
    use metrics_exporter_prometheus::PrometheusBuilder;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    async fn get(address: &Address, path: &str) -> String {
        let mut stream = address.connect().await.unwrap();
        stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).await.unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).await.unwrap();
        response
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
}
