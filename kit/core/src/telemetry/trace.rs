//! Trace context, in request headers and as text stored with work for later.
//!
//! If spans are exported, OpenTelemetry's layer knows the position of each span. Otherwise a span
//! has a position only if its client sent one; it is kept with the span and passed on.

use http::{HeaderMap, HeaderName, HeaderValue};
use opentelemetry::Context;
use opentelemetry::propagation::{Extractor, Injector, TextMapPropagator};
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tracing::span::Id;
use tracing::{Dispatch, Span};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::Registry;
use tracing_subscriber::registry::LookupSpan;

use super::export;

/// The header with the position in a trace, the only one that is stored with events
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
    if let Some(position) = position(&Span::current()) {
        let context = Context::new().with_remote_span_context(position);
        TraceContextPropagator::new().inject_context(&context, &mut HeadersMut(headers));
    }
}

/// Makes the client's trace the parent of `span`. Ignores malformed headers.
pub(super) fn continue_trace(span: &Span, headers: &HeaderMap) {
    if headers.contains_key(TRACE_PARENT)
        && let Some(parent) = remote(&Headers(headers))
    {
        set_parent(span, parent);
    }
}

/// Whether a span that begins now is exported: this process exports spans and the current trace is
/// sampled. Spans of statements and processes are only created then.
#[must_use]
pub fn is_sampled() -> bool {
    export::is_exporting() && position(&Span::current()).is_some_and(|position| position.is_sampled())
}

/// Returns the current span's position as a `traceparent`, to store with work for later. Empty
/// outside a sampled trace.
#[must_use]
pub fn trace_parent() -> String {
    let Some(position) = position(&Span::current()).filter(SpanContext::is_sampled) else { return String::new() };
    format!("00-{}-{}-{:02x}", position.trace_id(), position.span_id(), position.trace_flags().to_u8())
}

/// Returns a span that continues the trace of a stored [`trace_parent()`] and links to the current
/// span. `kind` is OpenTelemetry's. Returns no span if the text is empty or malformed.
#[must_use]
pub fn continued_span(name: &'static str, kind: &'static str, trace_parent: &str) -> Span {
    let Some(parent) = remote(&TraceParent(trace_parent)) else { return Span::none() };
    let span = tracing::info_span!(parent: None, "continued", otel.name = name, otel.kind = kind);
    set_parent(&span, parent);
    if let Some(current) = position(&Span::current()) {
        span.add_link(current);
    }
    span
}

/// Makes the trace of `trace_parent` the parent of a span that has not begun. Ignores a malformed
/// text.
pub fn continue_from(span: &Span, trace_parent: &str) {
    if let Some(parent) = remote(&TraceParent(trace_parent)) {
        set_parent(span, parent);
    }
}

/// Links `span` to the trace of `trace_parent`. Ignores a malformed text.
pub fn link_to(span: &Span, trace_parent: &str) {
    if let Some(other) = remote(&TraceParent(trace_parent)) {
        span.add_link(other);
    }
}

/// Returns the position in `source`; `None` if absent or malformed.
fn remote(source: &dyn Extractor) -> Option<SpanContext> {
    let context = TraceContextPropagator::new().extract_with_context(&Context::new(), source);
    Some(context.span().span_context().clone()).filter(SpanContext::is_valid)
}

/// Makes `parent`, a span of another process, the parent of `span`.
fn set_parent(span: &Span, parent: SpanContext) {
    if export::is_exporting() {
        let _ = span.set_parent(Context::new().with_remote_span_context(parent));
        return;
    }
    let (id, flags, state) = (SpanId::from_bytes(rand::random()), parent.trace_flags(), parent.trace_state().clone());
    let position = SpanContext::new(parent.trace_id(), id, flags, false, state);
    span.with_subscriber(|(id, dispatch)| {
        if let Some(span) = dispatch.downcast_ref::<Registry>().and_then(|registry| registry.span(id)) {
            span.extensions_mut().replace(position);
        }
    });
}

/// Returns the position of a span in its trace; `None` outside a trace.
fn position(span: &Span) -> Option<SpanContext> {
    if export::is_exporting() {
        let context = span.context();
        return Some(context.span().span_context().clone()).filter(SpanContext::is_valid);
    }
    span.with_subscriber(|(id, dispatch)| kept_position(id, dispatch)).flatten()
}

/// Returns the position kept with a span or its nearest ancestor that has one.
fn kept_position(id: &Id, dispatch: &Dispatch) -> Option<SpanContext> {
    let span = dispatch.downcast_ref::<Registry>()?.span(id)?;
    span.scope().find_map(|span| span.extensions().get::<SpanContext>().cloned())
}

#[derive(Debug)]
pub(super) struct TraceIds {
    pub(super) trace_id: String,
    pub(super) span_id: String,
}

/// Returns the ids of the current span; `None` outside a trace.
pub(super) fn current_ids() -> Option<TraceIds> {
    let position = position(&Span::current())?;
    Some(TraceIds { trace_id: position.trace_id().to_string(), span_id: position.span_id().to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
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
    fn without_an_exporter_spans_keep_the_trace_of_the_client() {
        tracing::subscriber::with_default(Registry::default(), || {
            let (client, other) = (remote(&TraceParent(SAMPLED)).unwrap(), tracing::info_span!("other"));
            let span = tracing::info_span!("request");
            continue_from(&span, SAMPLED);
            let own = position(&span).unwrap();
            assert_eq!((own.trace_id(), own.is_sampled()), (client.trace_id(), true));
            assert_ne!(own.span_id(), client.span_id());
            let inner = span.in_scope(|| tracing::info_span!("inner"));
            assert_eq!(position(&inner), Some(own.clone()));
            let ids = inner.in_scope(current_ids).unwrap();
            assert_eq!((ids.trace_id, ids.span_id), (own.trace_id().to_string(), own.span_id().to_string()));
            let text = inner.in_scope(trace_parent);
            assert_eq!(remote(&TraceParent(&text)).map(|read| read.span_id()), Some(own.span_id()));
            let mut sent = HeaderMap::new();
            inner.in_scope(|| inject(&mut sent));
            assert_eq!(sent[TRACE_PARENT], text.as_str());
            assert!(position(&other).is_none() && !is_sampled());
        });
    }

    #[test]
    fn the_text_of_a_trace_is_read() {
        let context = remote(&TraceParent(SAMPLED)).unwrap();
        assert!(context.is_sampled() && context.is_remote());
        assert_eq!(context.trace_id().to_string(), "0af7651916cd43dd8448eb211c80319c");
    }
}
