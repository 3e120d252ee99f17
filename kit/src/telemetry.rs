//! Logs to standard error, traces by OTLP, metrics for Prometheus; and the layer that gives every request its span.
//!
//! Secrets, mail addresses and bodies are never recorded; paths are recorded as route templates.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use axum::extract::{MatchedPath, Request};
use axum::middleware::Next;
use axum::response::Response;
use http::{HeaderMap, HeaderName, HeaderValue};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use opentelemetry::propagation::{Extractor, Injector, TextMapPropagator};
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::WithExportConfig;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{BatchConfigBuilder, BatchSpanProcessor, SdkTracerProvider};
use tracing::{Instrument, Span, field};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

use crate::config::{LogFormat, TelemetryArgs};

const EXPORT_EVERY: Duration = Duration::from_millis(500);

/// What [`init`] set up. Call [`Telemetry::flush`] before the process ends.
#[derive(Debug)]
pub struct Telemetry {
    tracer: Option<SdkTracerProvider>,
    /// The process's metrics, for the private listener.
    pub metrics: PrometheusHandle,
}

/// Starts logging, tracing and metrics for this process, as `role`. In a process that has them already (several roles in one
/// test), the first wins.
///
/// # Errors
/// When the log filter or the OTLP endpoint is malformed.
pub fn init(role: &'static str, args: &TelemetryArgs) -> Result<Telemetry, Box<dyn std::error::Error + Send + Sync>> {
    let filter = EnvFilter::builder().parse(&args.log)?;
    let json = match args.log_format {
        Some(format) => format == LogFormat::Json,
        None => !std::io::stderr().is_terminal(),
    };
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let lines = if json { lines.json().flatten_event(true).boxed() } else { lines.with_target(false).boxed() };
    let tracer = args.otlp_endpoint.as_deref().map(|endpoint| tracer(role, endpoint)).transpose()?;
    let spans = tracer.as_ref().map(|provider| tracing_opentelemetry::layer().with_tracer(provider.tracer(role)));
    // A second role of the same process keeps the first one's subscriber and recorder.
    let _ = tracing_subscriber::registry().with(filter).with(spans).with(lines).try_init();
    let recorder = PrometheusBuilder::new()
        .set_buckets(&[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0])?
        .build_recorder();
    let metrics = recorder.handle();
    let _ = metrics::set_global_recorder(recorder);
    Ok(Telemetry { tracer, metrics })
}

fn tracer(
    role: &'static str,
    endpoint: &str,
) -> Result<SdkTracerProvider, Box<dyn std::error::Error + Send + Sync>> {
    let exporter = opentelemetry_otlp::SpanExporter::builder().with_tonic().with_endpoint(endpoint).build()?;
    let batches = BatchSpanProcessor::builder(exporter)
        .with_batch_config(BatchConfigBuilder::default().with_scheduled_delay(EXPORT_EVERY).build())
        .build();
    let resource = Resource::builder().with_service_name(role).build();
    Ok(SdkTracerProvider::builder().with_span_processor(batches).with_resource(resource).build())
}

impl Telemetry {
    /// Sends what is still held back.
    pub fn flush(&self) {
        if let Some(tracer) = &self.tracer {
            let _ = tracer.shutdown_with_timeout(Duration::from_secs(2));
        }
    }
}

struct Headers<'a>(&'a HeaderMap);

impl Extractor for Headers<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.to_str().ok()
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(HeaderName::as_str).collect()
    }
}

struct HeadersMut<'a>(&'a mut HeaderMap);

impl Injector for HeadersMut<'_> {
    fn set(&mut self, key: &str, value: String) {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(key), HeaderValue::try_from(value)) {
            self.0.insert(name, value);
        }
    }
}

/// Writes the current span's trace context into the headers of an outgoing request.
pub fn inject(headers: &mut HeaderMap) {
    TraceContextPropagator::new().inject_context(&Span::current().context(), &mut HeadersMut(headers));
}

fn continue_trace(span: &Span, headers: &HeaderMap) {
    let context = TraceContextPropagator::new().extract(&Headers(headers));
    let _ = span.set_parent(context);
}

/// Middleware for `axum::middleware::from_fn`: a span and metrics for every gRPC request.
pub async fn grpc_span(request: Request, next: Next) -> Response {
    let method = request.uri().path().trim_start_matches('/').to_owned();
    let span = tracing::info_span!(
        "rpc",
        otel.name = %method,
        otel.kind = "server",
        rpc.method = %method,
        request.id = field::Empty,
        rpc.status = field::Empty,
    );
    measured("grpc_server", method, span, request, next).await
}

/// Middleware for `axum::middleware::from_fn`: a span and metrics for every HTTP request. Names the route's template, not the
/// path; apply it with `Router::layer`, after the routes.
pub async fn http_span(request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().map_or("unmatched", MatchedPath::as_str).to_owned();
    let method = request.method().clone();
    let name = format!("{method} {route}");
    let span = tracing::info_span!(
        "http",
        otel.name = %name,
        otel.kind = "server",
        http.request.method = %method,
        http.route = %route,
        http.response.status_code = field::Empty,
        request.id = field::Empty,
    );
    measured("http_server", name, span, request, next).await
}

async fn measured(kind: &'static str, operation: String, span: Span, request: Request, next: Next) -> Response {
    continue_trace(&span, request.headers());
    if let Some(id) = request.headers().get(ferrite_proto::metadata::REQUEST_ID).and_then(|id| id.to_str().ok()) {
        span.record("request.id", id);
    }
    let started = Instant::now();
    let response = next.run(request).instrument(span.clone()).await;
    let elapsed = started.elapsed();
    // A gRPC failure without a body has its code in the headers; one without it succeeded, or fails in its trailers.
    let status = match response.headers().get("grpc-status").and_then(|code| code.to_str().ok()) {
        Some(code) => code.to_owned(),
        None if kind == "grpc_server" => "0".to_owned(),
        None => response.status().as_u16().to_string(),
    };
    span.record(if kind == "grpc_server" { "rpc.status" } else { "http.response.status_code" }, status.as_str());
    let labels = [("operation", operation), ("status", status)];
    metrics::counter!(format!("ferrite_{kind}_requests_total"), &labels).increment(1);
    metrics::histogram!(format!("ferrite_{kind}_request_duration_seconds"), &labels[..1]).record(elapsed);
    span.in_scope(|| tracing::debug!(duration_ms = elapsed.as_millis(), status = labels[1].1, "served {}", labels[0].1));
    response
}
