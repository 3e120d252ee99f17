//! Logs to standard error, traces over OTLP, metrics for Prometheus, and the middleware that gives every request its span.
//!
//! Secrets, mail addresses and bodies are never recorded; paths are recorded as route templates.

use std::collections::HashSet;
use std::io::IsTerminal;
use std::sync::LazyLock;
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
use opentelemetry_sdk::trace::{BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracerProvider};
use prost::Message;
use tracing::{Instrument, Span, field};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

use crate::config::{LogFormat, TelemetryArgs};

const METRICS_UPKEEP_INTERVAL: Duration = Duration::from_secs(5);
const TRACE_EXPORT_INTERVAL: Duration = Duration::from_millis(500);

/// Trace exporter and metrics of a process. [`Telemetry::flush`] must be called before the process ends.
#[derive(Debug)]
pub struct Telemetry {
    tracer: SdkTracerProvider,
    /// Metrics of the process, for the private listener.
    pub metrics: PrometheusHandle,
}

/// Starts logging, tracing and metrics of this process under the name `role`. A second call in the same process (several roles in one
/// test) keeps the log and the metrics of the first.
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
    // Also without an exporter: the trace of a client is passed on even if this process reports no spans.
    let tracer = match args.otlp_endpoint.as_deref() {
        Some(endpoint) => tracer(role, endpoint)?,
        None => SdkTracerProvider::builder().with_sampler(Sampler::ParentBased(Box::new(Sampler::AlwaysOff))).build(),
    };
    let spans = tracing_opentelemetry::layer().with_tracer(tracer.tracer(role));
    // Fails for a second role of the same process, which keeps the subscriber and the recorder of the first.
    // The filter of the log applies to the log only: traces must not depend on it.
    let layers =
        tracing_subscriber::registry().with(spans.with_filter(LevelFilter::INFO)).with(lines.with_filter(filter));
    let _ = layers.try_init();
    let recorder = PrometheusBuilder::new()
        .set_buckets(&[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0])?
        .build_recorder();
    let metrics = recorder.handle();
    if metrics::set_global_recorder(recorder).is_ok() {
        start_metrics_upkeep(metrics.clone())?;
    }
    Ok(Telemetry { tracer, metrics })
}

/// Starts a thread that folds recorded durations into their buckets. Otherwise they accumulate until the next scrape, and without
/// limit if nothing scrapes the process.
fn start_metrics_upkeep(metrics: PrometheusHandle) -> std::io::Result<()> {
    let work = move || {
        loop {
            std::thread::sleep(METRICS_UPKEEP_INTERVAL);
            metrics.run_upkeep();
        }
    };
    std::thread::Builder::new().name("metrics upkeep".into()).spawn(work).map(drop)
}

fn tracer(role: &'static str, endpoint: &str) -> Result<SdkTracerProvider, Box<dyn std::error::Error + Send + Sync>> {
    let exporter = opentelemetry_otlp::SpanExporter::builder().with_tonic().with_endpoint(endpoint).build()?;
    let batches = BatchSpanProcessor::builder(exporter)
        .with_batch_config(BatchConfigBuilder::default().with_scheduled_delay(TRACE_EXPORT_INTERVAL).build())
        .build();
    let resource = Resource::builder().with_service_name(role).build();
    Ok(SdkTracerProvider::builder().with_span_processor(batches).with_resource(resource).build())
}

impl Telemetry {
    /// Exports the remaining spans and shuts the exporter down.
    pub fn flush(&self) {
        let _ = self.tracer.shutdown_with_timeout(Duration::from_secs(2));
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

/// Makes the trace of the client the parent of `span`.
fn continue_trace(span: &Span, headers: &HeaderMap) {
    let context = TraceContextPropagator::new().extract(&Headers(headers));
    let _ = span.set_parent(context);
}

/// Returns the name of a call for metrics: the method if the contracts have it, else the route template. The path of a request is
/// never used otherwise: clients could create any number of metrics.
fn operation_name(request: &Request) -> String {
    static METHODS: LazyLock<HashSet<String>> = LazyLock::new(|| methods(ferrite_proto::DESCRIPTORS));
    let path = request.uri().path().trim_start_matches('/');
    if METHODS.contains(path) {
        return path.to_owned();
    }
    let template = request.extensions().get::<MatchedPath>().map_or("unmatched", MatchedPath::as_str);
    template.trim_start_matches('/').to_owned()
}

/// Returns the full names of all methods in a serialized `FileDescriptorSet`.
fn methods(descriptors: &[u8]) -> HashSet<String> {
    let set = prost_types::FileDescriptorSet::decode(descriptors).unwrap_or_default();
    let mut methods = HashSet::new();
    for file in &set.file {
        for service in &file.service {
            for method in &service.method {
                methods.insert(format!("{}.{}/{}", file.package(), service.name(), method.name()));
            }
        }
    }
    methods
}

/// Middleware for `axum::middleware::from_fn` that records a span and metrics for every gRPC request.
pub async fn grpc_span(request: Request, next: Next) -> Response {
    let method = operation_name(&request);
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

/// Middleware for `axum::middleware::from_fn` that records a span and metrics for every HTTP request, named by the route template. It
/// must be added by `Router::layer` after the routes.
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
        client.address = field::Empty,
    );
    measured("http_server", name, span, request, next).await
}

async fn measured(kind: &'static str, operation: String, span: Span, request: Request, next: Next) -> Response {
    continue_trace(&span, request.headers());
    if let Some(id) = request.headers().get(ferrite_proto::metadata::REQUEST_ID).and_then(|id| id.to_str().ok()) {
        span.record("request.id", id);
    }
    // A field of spans of HTTP only: the address (for IPv6 the network) under which the gateway counts the client.
    if let Some(client) = request.headers().get(ferrite_proto::metadata::CLIENT).and_then(|client| client.to_str().ok())
    {
        span.record("client.address", client);
    }
    let started = Instant::now();
    let response = next.run(request).instrument(span.clone()).await;
    let elapsed = started.elapsed();
    let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
    // A gRPC response that consists of headers only has its status there. Any other one has it in its trailers, which are not read
    // here, and counts as success.
    let status = match header("grpc-status") {
        Some(code) => code.to_owned(),
        None if header("content-type").is_some_and(|kind| kind.starts_with("application/grpc")) => "0".to_owned(),
        None => response.status().as_u16().to_string(),
    };
    span.record(if kind == "grpc_server" { "rpc.status" } else { "http.response.status_code" }, status.as_str());
    let labels = [("operation", operation), ("status", status)];
    metrics::counter!(format!("ferrite_{kind}_requests_total"), &labels).increment(1);
    metrics::histogram!(format!("ferrite_{kind}_request_duration_seconds"), &labels[..1]).record(elapsed);
    span.in_scope(|| {
        tracing::debug!(duration_ms = elapsed.as_millis(), status = labels[1].1, "served {}", labels[0].1);
    });
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_have_names_of_the_contracts_only() {
        let request = |path: &str| Request::post(path).body(axum::body::Body::empty()).unwrap();
        let call = "ferrite.repo.v1.RepositoryService/GetRepository";
        assert_eq!(operation_name(&request(&format!("/{call}"))), call);
        for unknown in ["/ferrite.repo.v1.RepositoryService/X", "/x", "/git/1/raw"] {
            assert_eq!(operation_name(&request(unknown)), "unmatched", "{unknown}");
        }
        assert!(methods(b"\xff").is_empty());
    }

    #[test]
    fn a_malformed_trace_is_not_passed_on() {
        for wrong in ["", "x", "00-0-0-00", "00-00000000000000000000000000000000-0000000000000000-01"] {
            let mut headers = HeaderMap::new();
            headers.insert("traceparent", HeaderValue::from_static(wrong));
            let span = tracing::info_span!("x");
            continue_trace(&span, &headers);
            let mut sent = HeaderMap::new();
            span.in_scope(|| inject(&mut sent));
            assert_ne!(sent.get("traceparent").map(HeaderValue::as_bytes), Some(wrong.as_bytes()), "{wrong}");
        }
    }
}
