//! Logs to standard error, traces over OTLP, Prometheus metrics, and the middleware that gives
//! every request a span.
//!
//! Secrets, mail addresses and bodies are never recorded. Paths are recorded as route templates.
//!
//! Order of the files, each using only those after it: this file, `server`, `client`,
//! `observed_body`, `logs`, `recorder`, `catalog`, `metric`, `operation`, `trace`, `export`.

mod catalog;
mod client;
mod export;
mod logs;
mod metric;
mod observed_body;
mod operation;
mod recorder;
mod server;
mod trace;

use std::time::Duration;

use metrics_exporter_prometheus::PrometheusHandle;
use opentelemetry::trace::TracerProvider;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Identity, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry};

use crate::config::TelemetryArgs;
pub use client::ClientCall;
pub use metric::{Metric, MetricKind};
pub use recorder::{collect_process_metrics, describe};
pub use server::http_span;
pub use server::request_span;
pub use trace::{continue_from, continued_span, inject, is_sampled, link_to, trace_parent};

/// Limit for exporting the last spans at shutdown.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

type InitError = Box<dyn std::error::Error + Send + Sync>;

/// Trace exporter and metrics of a process. Call [`Telemetry::flush`] before the process ends.
#[derive(Debug)]
pub struct Telemetry {
    /// `None` if traces are not exported.
    tracer: Option<SdkTracerProvider>,
    /// The metrics, for the private listener.
    pub metrics: PrometheusHandle,
}

/// Starts logs, traces and metrics of a process with the role `role`. The `OTEL_*` variables
/// configure the export of traces. A second call in the same process (several roles in one test)
/// keeps the log and the metrics of the first.
///
/// # Errors
/// If the log filter or an `OTEL_*` variable is malformed.
pub fn init(role: &'static str, args: &TelemetryArgs) -> Result<Telemetry, InitError> {
    start(role, args, export::provider(role)?)
}

/// Like [`init`], but never exports traces.
///
/// # Errors
/// If the log filter is malformed.
pub fn init_without_export(role: &'static str, args: &TelemetryArgs) -> Result<Telemetry, InitError> {
    start(role, args, None)
}

/// Checks the `OTEL_*` variables for processes that are about to start.
///
/// # Errors
/// If one has an unsupported value. The message names it.
pub fn check_export() -> Result<(), InitError> {
    export::check()
}

fn start(role: &'static str, args: &TelemetryArgs, tracer: Option<SdkTracerProvider>) -> Result<Telemetry, InitError> {
    let filter = EnvFilter::builder().parse(&args.log).map_err(|error| format!("FERRITE_LOG: {error}"))?;
    let lines = logs::layer(role, args.log_format);
    let spans: Box<dyn Layer<Registry> + Send + Sync> = match &tracer {
        Some(tracer) => tracing_opentelemetry::layer().with_tracer(tracer.tracer(role)).boxed(),
        // Spans must not depend on the log filter: they carry the traces of clients.
        None => Identity::new().boxed(),
    };
    // Fails for a second role in the same process, which keeps the first subscriber and recorder.
    // The filter applies to the log only, because traces must not depend on it.
    let layers =
        tracing_subscriber::registry().with(spans.with_filter(LevelFilter::INFO)).with(lines.with_filter(filter));
    let _ = layers.try_init();
    Ok(Telemetry { tracer, metrics: recorder::install(role)? })
}

impl Telemetry {
    /// Exports the remaining spans and stops the exporter.
    pub fn flush(&self) {
        if let Some(tracer) = &self.tracer {
            let _ = tracer.shutdown_with_timeout(FLUSH_TIMEOUT);
        }
    }
}
