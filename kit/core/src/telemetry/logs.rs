//! Writes the log to standard error, as text or as one JSON object per line.
//!
//! A JSON line has time, level, role, message, the fields of the message and of the spans around
//! it, and the ids of trace and span. A field of the message wins over a span field of the same
//! name, and an inner span over an outer one.

use std::fmt::{self, Debug};
use std::io::IsTerminal;

use serde::ser::{SerializeMap, Serializer};
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

use super::trace;
use crate::config::LogFormat;

/// Returns the layer that writes the log. The default format on a terminal is text.
pub(super) fn layer<S>(role: &'static str, format: Option<LogFormat>) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let is_json = match format {
        Some(format) => format == LogFormat::Json,
        None => !std::io::stderr().is_terminal(),
    };
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    if is_json {
        lines.fmt_fields(JsonMembers).event_format(JsonLines { role }).boxed()
    } else {
        lines.with_target(false).boxed()
    }
}

#[derive(Debug)]
struct JsonLines {
    role: &'static str,
}

impl<S, N> FormatEvent<S, N> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut out: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut fields = Map::new();
        event.record(&mut Fields(|name: &str, value| _ = fields.insert(name.to_owned(), value)));
        let message = fields.remove("message");
        let mut operation = None;
        for span in context.event_scope().into_iter().flatten() {
            let extensions = span.extensions();
            let Some(text) = extensions.get::<FormattedFields<N>>() else { continue };
            // From the inner span to the outer one: fields already present stay.
            for (name, value) in object_of(text) {
                match name.as_str() {
                    OPERATION_FIELD => operation = operation.or(Some(value)),
                    "request.id" => _ = fields.entry("request_id").or_insert(value),
                    _ => _ = fields.entry(name).or_insert(value),
                }
            }
        }
        let ids = trace::current_ids();
        let mut line = Vec::with_capacity(256);
        let mut serializer = serde_json::Serializer::new(&mut line);
        let mut write = || {
            let mut map = serializer.serialize_map(None)?;
            let now = chrono::Utc::now().to_rfc3339_opts(chrono::SecondsFormat::Micros, true);
            map.serialize_entry("timestamp", &now)?;
            map.serialize_entry("level", event.metadata().level().as_str())?;
            map.serialize_entry("role", self.role)?;
            map.serialize_entry("target", event.metadata().target())?;
            if let Some(message) = &message {
                map.serialize_entry("message", message)?;
            }
            if let Some(operation) = &operation {
                map.serialize_entry("operation", operation)?;
            }
            if let Some(ids) = &ids {
                map.serialize_entry("trace_id", &ids.trace_id)?;
                map.serialize_entry("span_id", &ids.span_id)?;
            }
            for (name, value) in fields.iter().filter(|(name, _)| !OWN_KEYS.contains(&name.as_str())) {
                map.serialize_entry(name, value)?;
            }
            map.end()
        };
        write().map_err(|_| fmt::Error)?;
        writeln!(out, "{}", String::from_utf8_lossy(&line))
    }
}

/// Prefix of fields for the trace exporter.
const OTEL_PREFIX: &str = "otel.";
/// Span field with the name of the operation.
const OPERATION_FIELD: &str = "otel.name";
/// Keys that every line sets itself. Fields with these names are dropped.
const OWN_KEYS: [&str; 8] = ["timestamp", "level", "role", "target", "message", "operation", "trace_id", "span_id"];

/// Formats span fields as members of a JSON object. Each ends with a comma, so that later fields
/// can be appended.
#[derive(Debug)]
struct JsonMembers;

impl<'writer> FormatFields<'writer> for JsonMembers {
    fn format_fields<R: RecordFields>(&self, mut out: Writer<'writer>, fields: R) -> fmt::Result {
        let mut members = Vec::with_capacity(256);
        let mut outcome = Ok(());
        fields.record(&mut Fields(|name: &str, value: Value| {
            // Other `otel.*` fields are for exported traces only.
            if outcome.is_ok() && (!name.starts_with(OTEL_PREFIX) || name == OPERATION_FIELD) {
                outcome = write_member(&mut members, name, &value);
            }
        }));
        outcome.map_err(|_| fmt::Error)?;
        out.write_str(&String::from_utf8_lossy(&members))
    }
}

fn write_member(members: &mut Vec<u8>, name: &str, value: &Value) -> serde_json::Result<()> {
    serde_json::to_writer(&mut *members, name)?;
    members.push(b':');
    serde_json::to_writer(&mut *members, value)?;
    members.push(b',');
    Ok(())
}

/// Parses the members that [`JsonMembers`] wrote. Of two with the same name the later one wins.
fn object_of(members: &str) -> Map<String, Value> {
    let members = members.trim_end_matches([' ', ',']);
    serde_json::from_str(&format!("{{{members}}}")).unwrap_or_default()
}

struct Fields<F>(F);

impl<F: FnMut(&'static str, Value)> Fields<F> {
    fn set(&mut self, field: &Field, value: impl Into<Value>) {
        self.0(field.name(), value.into());
    }
}

impl<F: FnMut(&'static str, Value)> Visit for Fields<F> {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.set(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field, value);
    }

    fn record_i128(&mut self, field: &Field, value: i128) {
        match i64::try_from(value) {
            Ok(value) => self.set(field, value),
            Err(_) => self.set(field, value.to_string()),
        }
    }

    fn record_u128(&mut self, field: &Field, value: u128) {
        match u64::try_from(value) {
            Ok(value) => self.set(field, value),
            Err(_) => self.set(field, value.to_string()),
        }
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field, value);
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        // Includes the causes, which the text of an error leaves out.
        let causes = std::iter::successors(Some(value), |error| error.source()).map(ToString::to_string);
        self.set(field, causes.collect::<Vec<_>>().join(": "));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.set(field, format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    #[derive(Clone, Default)]
    struct Buffer(Arc<Mutex<Vec<u8>>>);

    impl Write for Buffer {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn logged(work: impl FnOnce()) -> Vec<Value> {
        let buffer = Buffer::default();
        let writer = buffer.clone();
        let lines = tracing_subscriber::fmt::layer().with_writer(move || writer.clone());
        let lines = lines.fmt_fields(JsonMembers).event_format(JsonLines { role: "test-svc" });
        tracing::subscriber::with_default(tracing_subscriber::registry().with(lines), work);
        let text = String::from_utf8(buffer.0.lock().unwrap().clone()).unwrap();
        assert!(text.ends_with('\n'));
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn a_line_is_one_object_with_the_fields_of_its_spans() {
        let lines = logged(|| {
            let outer = tracing::info_span!("http", otel.name = "GET /x", request.id = "r-1", client.address = "a");
            let inner = outer.in_scope(|| tracing::info_span!("inner", client.address = "b", level = "no"));
            inner.in_scope(|| tracing::warn!(count = 3_u64, name = "two\nlines", done = true, "it {}", "happened"));
            tracing::info!("outside");
        });
        assert_eq!(lines.len(), 2);
        let line = &lines[0];
        let expected = [
            ("level", "WARN".into()),
            ("role", "test-svc".into()),
            ("message", "it happened".into()),
            ("operation", "GET /x".into()),
            ("request_id", "r-1".into()),
            ("client.address", "b".into()),
            ("count", Value::from(3)),
            ("name", "two\nlines".into()),
            ("done", true.into()),
        ];
        for (name, value) in expected {
            assert_eq!(line[name], value, "{line}");
        }
        assert!(line["timestamp"].as_str().unwrap().ends_with('Z') && line.get("trace_id").is_none(), "{line}");
        assert_eq!((&lines[1]["message"], lines[1].get("request_id")), (&"outside".into(), None));
    }

    #[test]
    fn fields_that_are_recorded_later_are_in_the_line() {
        let lines = logged(|| {
            let span = tracing::info_span!("x", otel.kind = "server", a = "1\"", b = tracing::field::Empty, c = 1.5);
            span.record("b", true);
            span.record("a", "2");
            span.in_scope(|| tracing::info!("happened"));
        });
        let line = &lines[0];
        assert_eq!((&line["a"], &line["b"], &line["c"]), (&"2".into(), &true.into(), &1.5.into()), "{line}");
        assert!(line.get("otel.kind").is_none(), "{line}");
    }

    #[test]
    fn an_error_is_logged_with_its_causes() {
        #[derive(Debug, thiserror::Error)]
        #[error("outer")]
        struct Outer(#[source] std::io::Error);
        let error = Outer(std::io::Error::other("inner"));
        let lines = logged(|| tracing::error!(error = &error as &dyn std::error::Error, "failed"));
        assert_eq!(lines[0]["error"], "outer: inner");
    }
}
