//! Logs to standard error, traces over OTLP, metrics for Prometheus, and the middleware that gives every request its span.
//!
//! Secrets, mail addresses and bodies are never recorded; paths are recorded as route templates.
//!
//! Order of the files, each using only those after it: this file, `server`, `client`, `observed_body`, `logs`, `recorder`, `catalog`,
//! `metric`, `operation`, `trace`, `export`.

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

/// Longest time for the export of the last spans when a process stops.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// The error of telemetry that cannot start.
type InitError = Box<dyn std::error::Error + Send + Sync>;

/// Trace exporter and metrics of a process. [`Telemetry::flush`] must be called before the process ends.
#[derive(Debug)]
pub struct Telemetry {
    /// `None` if no spans are exported.
    tracer: Option<SdkTracerProvider>,
    /// Metrics of the process, for the private listener.
    pub metrics: PrometheusHandle,
}

/// Starts logging, tracing and metrics of this process under the name `role`; traces are exported as the `OTEL_*` variables say. A second
/// call in the same process (several roles in one test) keeps the log and the metrics of the first.
///
/// # Errors
/// When the log filter or an `OTEL_*` variable is malformed.
pub fn init(role: &'static str, args: &TelemetryArgs) -> Result<Telemetry, InitError> {
    start(role, args, export::provider(role)?)
}

/// As [`init`], for a process whose own spans are of no interest: none are exported, whatever the `OTEL_*` variables say.
///
/// # Errors
/// When the log filter is malformed.
pub fn init_without_export(role: &'static str, args: &TelemetryArgs) -> Result<Telemetry, InitError> {
    start(role, args, None)
}

/// Checks the `OTEL_*` variables of processes to be started.
///
/// # Errors
/// When one has a value that cannot be followed; the message names it.
pub fn check_export() -> Result<(), InitError> {
    export::check()
}

fn start(role: &'static str, args: &TelemetryArgs, tracer: Option<SdkTracerProvider>) -> Result<Telemetry, InitError> {
    let filter = EnvFilter::builder().parse(&args.log).map_err(|error| format!("FERRITE_LOG: {error}"))?;
    let lines = logs::layer(role, args.log_format);
    let spans: Box<dyn Layer<Registry> + Send + Sync> = match &tracer {
        Some(tracer) => tracing_opentelemetry::layer().with_tracer(tracer.tracer(role)).boxed(),
        // Spans exist whatever the filter of the log is: they keep the traces of clients.
        None => Identity::new().boxed(),
    };
    // Fails for a second role of the same process, which keeps the subscriber and the recorder of the first.
    // The filter of the log applies to the log only: traces must not depend on it.
    let layers =
        tracing_subscriber::registry().with(spans.with_filter(LevelFilter::INFO)).with(lines.with_filter(filter));
    let _ = layers.try_init();
    Ok(Telemetry { tracer, metrics: recorder::install(role)? })
}

impl Telemetry {
    /// Exports the remaining spans and shuts the exporter down.
    pub fn flush(&self) {
        if let Some(tracer) = &self.tracer {
            let _ = tracer.shutdown_with_timeout(FLUSH_TIMEOUT);
        }
    }
}
