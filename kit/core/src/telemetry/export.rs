//! Exports traces with OTLP over gRPC, configured by the standard `OTEL_*` variables.
//!
//! The libraries read most variables themselves. This file decides whether to export, sets the
//! attributes of the process, and rejects values that the libraries would silently replace.

use std::sync::atomic::{AtomicBool, Ordering};

use opentelemetry::{Key, KeyValue};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::resource::{EnvResourceDetector, ResourceDetector};
use opentelemetry_sdk::trace::{BatchSpanProcessor, SdkTracerProvider};

use super::InitError;

const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];
const PROTOCOLS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"];
const GRPC: &str = "grpc";
const SAMPLERS: [&str; 4] = ["always_on", "always_off", "parentbased_always_on", "parentbased_always_off"];
const RATIO_SAMPLERS: [&str; 2] = ["traceidratio", "parentbased_traceidratio"];

static IS_EXPORTING: AtomicBool = AtomicBool::new(false);

pub(super) fn is_exporting() -> bool {
    IS_EXPORTING.load(Ordering::Relaxed)
}

/// Returns the tracer that the environment asks for; `None` if traces are not exported. Fails if a
/// variable has an unsupported value.
pub(super) fn provider(role: &str) -> Result<Option<SdkTracerProvider>, InitError> {
    if !is_requested(variable)? {
        return Ok(None);
    }
    let exporter = opentelemetry_otlp::SpanExporter::builder().with_tonic().build();
    let exporter = exporter.map_err(|error| format!("traces cannot be exported: {error}"))?;
    let batches = BatchSpanProcessor::builder(exporter).build();
    IS_EXPORTING.store(true, Ordering::Relaxed);
    Ok(Some(SdkTracerProvider::builder().with_span_processor(batches).with_resource(resource(role)).build()))
}

/// Checks the variables. An error names the variable.
pub(super) fn check() -> Result<(), InitError> {
    is_requested(variable).map(drop)
}

#[expect(clippy::disallowed_methods, reason = "variables of OpenTelemetry, which its libraries read too")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Whether the variables that `read` returns ask for an export.
fn is_requested(read: impl Fn(&str) -> Option<String>) -> Result<bool, InitError> {
    // OpenTelemetry treats an empty variable as unset.
    let read = |name: &str| read(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
    if read("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
        return Ok(false);
    }
    match read("OTEL_TRACES_EXPORTER").as_deref() {
        None | Some("otlp") => {}
        Some("none") => return Ok(false),
        Some(other) => return Err(format!("OTEL_TRACES_EXPORTER must be `otlp` or `none`, not `{other}`").into()),
    }
    if ENDPOINTS.iter().all(|name| read(name).is_none()) {
        return Ok(false);
    }
    if let Some((name, other)) = PROTOCOLS.iter().find_map(|name| Some((name, read(name)?)))
        && other != GRPC
    {
        return Err(format!("{name} must be `{GRPC}`, the only supported protocol, not `{other}`").into());
    }
    check_sampler(read("OTEL_TRACES_SAMPLER").as_deref(), read("OTEL_TRACES_SAMPLER_ARG").as_deref())?;
    Ok(true)
}

fn check_sampler(sampler: Option<&str>, argument: Option<&str>) -> Result<(), InitError> {
    let Some(sampler) = sampler else { return Ok(()) };
    if SAMPLERS.contains(&sampler) {
        return Ok(());
    }
    if !RATIO_SAMPLERS.contains(&sampler) {
        let known = SAMPLERS.iter().chain(&RATIO_SAMPLERS).copied().collect::<Vec<_>>().join(", ");
        return Err(format!("OTEL_TRACES_SAMPLER must be one of {known}, not `{sampler}`").into());
    }
    let ratio = argument.and_then(|argument| argument.parse::<f64>().ok());
    if ratio.is_some_and(|ratio| (0.0..=1.0).contains(&ratio)) {
        return Ok(());
    }
    Err(format!("OTEL_TRACES_SAMPLER_ARG must be a number from 0 to 1 for `{sampler}`").into())
}

/// Returns the attributes of this process. Those set in the environment win.
fn resource(role: &str) -> Resource {
    let given = EnvResourceDetector::new().detect();
    let is_given = |name: &'static str| given.get(&Key::from_static_str(name)).is_some();
    let mut builder = Resource::builder().with_attribute(KeyValue::new("ferrite.role", role.to_owned()));
    let is_named = variable("OTEL_SERVICE_NAME").is_some_and(|name| !name.is_empty());
    if !is_named && !is_given("service.name") {
        builder = builder.with_service_name(format!("ferrite-{role}"));
    }
    if !is_given("service.instance.id") {
        builder = builder.with_attribute(KeyValue::new("service.instance.id", uuid::Uuid::new_v4().to_string()));
    }
    if !is_given("service.version") {
        builder = builder.with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")));
    }
    builder.build()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4317");

    fn requested(variables: &[(&str, &str)]) -> Result<bool, String> {
        let read =
            |name: &str| variables.iter().find(|(other, _)| *other == name).map(|(_, value)| (*value).to_owned());
        is_requested(read).map_err(|error| error.to_string())
    }

    #[test]
    fn traces_are_exported_only_to_an_endpoint() {
        assert_eq!(requested(&[]), Ok(false));
        assert_eq!(requested(&[ENDPOINT]), Ok(true));
        assert_eq!(requested(&[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://h:1")]), Ok(true));
        assert_eq!(requested(&[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")]), Ok(false));
        assert_eq!(requested(&[ENDPOINT, ("OTEL_SDK_DISABLED", "True")]), Ok(false));
        assert_eq!(requested(&[ENDPOINT, ("OTEL_SDK_DISABLED", "")]), Ok(true));
        assert_eq!(requested(&[ENDPOINT, ("OTEL_TRACES_EXPORTER", "none")]), Ok(false));
    }

    #[test]
    fn a_value_that_cannot_be_followed_is_refused_by_the_name_of_its_variable() {
        for (name, value) in [
            ("OTEL_TRACES_EXPORTER", "zipkin"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
            ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json"),
            ("OTEL_TRACES_SAMPLER", "xray"),
        ] {
            let refusal = requested(&[ENDPOINT, (name, value)]).unwrap_err();
            assert!(refusal.starts_with(name) && refusal.contains(value), "{refusal}");
        }
        for ratio in ["", "x", "1.1", "-1", "NaN"] {
            let sampler = ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio");
            let refusal = requested(&[ENDPOINT, sampler, ("OTEL_TRACES_SAMPLER_ARG", ratio)]).unwrap_err();
            assert!(refusal.starts_with("OTEL_TRACES_SAMPLER_ARG"), "{refusal}");
        }
        let fine = [ENDPOINT, ("OTEL_TRACES_SAMPLER", "traceidratio"), ("OTEL_TRACES_SAMPLER_ARG", "0.25")];
        assert_eq!(requested(&fine), Ok(true));
        let both = [ENDPOINT, ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc"), ("OTEL_EXPORTER_OTLP_PROTOCOL", "x")];
        assert_eq!(requested(&both), Ok(true), "the narrower variable wins");
    }
}
