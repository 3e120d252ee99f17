//! The context of a trace: in headers of requests, and as text beside what is worked on later.
//!
//! Not here: the exporter, and the spans of requests.

use http::{HeaderMap, HeaderName, HeaderValue};
use opentelemetry::Context;
use opentelemetry::propagation::{Extractor, Injector, TextMapPropagator};
use opentelemetry::trace::{SpanContext, TraceContextExt};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tracing::{Dispatch, Span};
use tracing_opentelemetry::OpenTelemetrySpanExt;

use super::export;

/// Name of the header that has the position in a trace, and the only one that is kept beside events
/// (<https://www.w3.org/TR/trace-context/>).
const TRACE_PARENT: &str = "traceparent";

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

/// The text of one `traceparent` as a source of headers.
struct TraceParent<'a>(&'a str);

impl Extractor for TraceParent<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        (key == TRACE_PARENT).then_some(self.0)
    }

    fn keys(&self) -> Vec<&str> {
        vec![TRACE_PARENT]
    }
}

/// Writes the current span's trace context into the headers of an outgoing request.
pub fn inject(headers: &mut HeaderMap) {
    TraceContextPropagator::new().inject_context(&Span::current().context(), &mut HeadersMut(headers));
}

/// Makes the trace of the client the parent of `span`.
pub(super) fn continue_trace(span: &Span, headers: &HeaderMap) {
    if headers.contains_key(TRACE_PARENT) {
        let _ = span.set_parent(TraceContextPropagator::new().extract_with_context(&Context::new(), &Headers(headers)));
    }
}

/// Returns whether a span that begins now is exported: this process exports spans, and the current trace is sampled. Spans of single
/// statements and processes are made only then.
#[must_use]
pub fn is_sampled() -> bool {
    export::is_exporting() && Span::current().context().span().span_context().is_sampled()
}

/// Returns the current span's position in its trace as a `traceparent`, for what is worked on later; empty outside a sampled trace.
#[must_use]
pub fn trace_parent() -> String {
    let span = Span::current();
    if span.is_disabled() {
        return String::new();
    }
    let context = span.context();
    let span = context.span();
    let context = span.span_context();
    if !context.is_valid() || !context.is_sampled() {
        return String::new();
    }
    format!("00-{}-{}-{:02x}", context.trace_id(), context.span_id(), context.trace_flags().to_u8())
}

/// Returns a span named `name` of a `kind` of OpenTelemetry that continues the trace of `trace_parent`, a text of [`trace_parent()`]; no span
/// if it is empty or malformed. The current span becomes a link of the new one.
#[must_use]
pub fn continued_span(name: &'static str, kind: &'static str, trace_parent: &str) -> Span {
    if trace_parent.is_empty() || !remote(trace_parent).is_valid() {
        return Span::none();
    }
    let span = tracing::info_span!(parent: None, "continued", otel.name = name, otel.kind = kind);
    continue_from(&span, trace_parent);
    let current = Span::current();
    if !current.is_disabled() {
        span.add_link(current.context().span().span_context().clone());
    }
    span
}

/// Makes the trace of `trace_parent` the parent of a span that has not begun; a malformed text changes nothing.
pub fn continue_from(span: &Span, trace_parent: &str) {
    let context = TraceContextPropagator::new().extract_with_context(&Context::new(), &TraceParent(trace_parent));
    if context.span().span_context().is_valid() {
        let _ = span.set_parent(context);
    }
}

/// Adds a link from `span` to the trace of `trace_parent`; a malformed text changes nothing.
pub fn link_to(span: &Span, trace_parent: &str) {
    // A context that is not valid is left out by the callee.
    span.add_link(remote(trace_parent));
}

fn remote(trace_parent: &str) -> SpanContext {
    let context = TraceContextPropagator::new().extract_with_context(&Context::new(), &TraceParent(trace_parent));
    context.span().span_context().clone()
}

/// Ids of trace and span of a log line.
#[derive(Debug)]
pub(super) struct TraceIds {
    pub(super) trace_id: String,
    pub(super) span_id: String,
}

/// Returns the ids of the current span; `None` outside a trace.
pub(super) fn current_ids(dispatch: &Dispatch) -> Option<TraceIds> {
    let id = Span::current().id()?;
    let context = tracing_opentelemetry::get_otel_context(&id, dispatch)?;
    let span = context.span();
    let context = span.span_context();
    let ids = || TraceIds { trace_id: context.trace_id().to_string(), span_id: context.span_id().to_string() };
    context.is_valid().then(ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MALFORMED: [&str; 4] = ["", "x", "00-0-0-00", "00-00000000000000000000000000000000-0000000000000000-01"];

    #[test]
    fn a_malformed_trace_is_not_passed_on() {
        for wrong in MALFORMED {
            let mut headers = HeaderMap::new();
            headers.insert(TRACE_PARENT, HeaderValue::from_static(wrong));
            let span = tracing::info_span!("x");
            continue_trace(&span, &headers);
            let mut sent = HeaderMap::new();
            span.in_scope(|| inject(&mut sent));
            assert_ne!(sent.get(TRACE_PARENT).map(HeaderValue::as_bytes), Some(wrong.as_bytes()), "{wrong}");
            assert!(continued_span("x", "internal", wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn outside_a_trace_nothing_is_kept() {
        assert_eq!(trace_parent(), "");
        assert!(!is_sampled());
    }

    #[test]
    fn the_text_of_a_trace_is_read() {
        let context = remote("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
        assert!(context.is_valid() && context.is_sampled() && context.is_remote());
        assert_eq!(context.trace_id().to_string(), "0af7651916cd43dd8448eb211c80319c");
    }
}
