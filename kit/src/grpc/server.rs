use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use tonic::Status;
use tonic::server::NamedService;
use tonic::service::{Routes, RoutesBuilder};
use tower_http::catch_panic::CatchPanicLayer;

use crate::Lifecycle;
use crate::auth::AuthLayer;
use crate::telemetry::grpc_span;

/// Bytes of one gRPC message, unless a service sets its own.
pub const MESSAGE_LIMIT: usize = 4 * 1024 * 1024;

/// How long a call may take when its caller sets no deadline.
const DEFAULT_DEADLINE: Duration = Duration::from_secs(60);

/// Builds the gRPC side of a process: its services, health, reflection, authentication, deadlines, spans, and panics contained.
#[derive(Debug)]
pub struct GrpcServer {
    routes: RoutesBuilder,
    names: Vec<&'static str>,
}

impl Default for GrpcServer {
    fn default() -> Self {
        Self { routes: Routes::builder(), names: Vec::new() }
    }
}

impl GrpcServer {
    /// Adds a service. Set its message limit first: `XServer::new(x).max_decoding_message_size(MESSAGE_LIMIT)`.
    #[must_use]
    pub fn add<S>(mut self, service: S) -> Self
    where
        S: tower::Service<http::Request<tonic::body::Body>, Error = std::convert::Infallible>
            + NamedService
            + Clone
            + Send
            + Sync
            + 'static,
        S::Response: axum::response::IntoResponse,
        S::Future: Send + 'static,
    {
        self.routes.add_service(service);
        self.names.push(S::NAME);
        self
    }

    /// The router to serve, with `extra` plain HTTP routes on the same port behind the same authentication. Health follows
    /// `life`'s readiness.
    ///
    /// # Panics
    /// Never: the descriptors are compiled in.
    #[must_use]
    pub fn into_router(mut self, auth: AuthLayer, extra: Router, life: &Lifecycle) -> Router {
        let (reporter, health) = tonic_health::server::health_reporter();
        let names = self.names;
        let watched = life.clone();
        life.spawn("health", async move {
            let mut last = None;
            while !watched.is_stopping() {
                let ready = watched.is_ready();
                if last != Some(ready) {
                    let status = if ready { tonic_health::ServingStatus::Serving } else { tonic_health::ServingStatus::NotServing };
                    reporter.set_service_status("", status).await;
                    for name in &names {
                        reporter.set_service_status(*name, status).await;
                    }
                    last = Some(ready);
                }
                tokio::select! {
                    () = watched.stopping() => {}
                    () = tokio::time::sleep(Duration::from_millis(100)) => {}
                }
            }
        });
        let reflection = tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(ferrite_proto::DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            .build_v1()
            .expect("the descriptors are compiled in");
        self.routes.add_service(health);
        self.routes.add_service(reflection);
        self.routes
            .routes()
            .into_axum_router()
            .layer(from_fn(deadline))
            .layer(CatchPanicLayer::custom(contain_panic))
            .merge(extra)
            .layer(auth)
            .layer(from_fn(grpc_span))
    }
}

/// Ends a call at the deadline its caller set (`grpc-timeout`), or at ours.
async fn deadline(request: Request, next: Next) -> Response {
    let asked = request.headers().get("grpc-timeout").and_then(|value| value.to_str().ok()).and_then(parse_timeout);
    let limit = asked.unwrap_or(DEFAULT_DEADLINE).min(DEFAULT_DEADLINE);
    match tokio::time::timeout(limit, next.run(request)).await {
        Ok(response) => response,
        Err(_) => Status::deadline_exceeded("deadline exceeded").into_http(),
    }
}

/// The form is at most eight digits and a unit: <https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md>.
fn parse_timeout(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let count: u64 = digits.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(count * 3600)),
        "M" => Some(Duration::from_secs(count * 60)),
        "S" => Some(Duration::from_secs(count)),
        "m" => Some(Duration::from_millis(count)),
        "u" => Some(Duration::from_micros(count)),
        "n" => Some(Duration::from_nanos(count)),
        _ => None,
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the signature is the panic layer's")]
fn contain_panic(panic: Box<dyn std::any::Any + Send>) -> Response {
    let message = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_default();
    tracing::error!(message, "a request panicked");
    metrics::counter!("ferrite_panics_total").increment(1);
    Status::internal("internal error").into_http()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_read_as_the_protocol_writes_them() {
        assert_eq!(parse_timeout("250m"), Some(Duration::from_millis(250)));
        assert_eq!(parse_timeout("99999999H"), Some(Duration::from_secs(99_999_999 * 3600)));
        for wrong in ["", "m", "999999999S", "-1S", "1x", "1é", "é"] {
            assert_eq!(parse_timeout(wrong), None, "{wrong:?}");
        }
    }
}
