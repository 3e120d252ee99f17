//! The span and metrics of every request.

use std::time::Instant;

use axum::body::Body;
use axum::extract::{MatchedPath, Request};
use axum::response::Response;
use http::HeaderMap;
use tonic::Code;
use tracing::{Instrument, Span, field};

use super::export::is_exporting;
use super::observed_body::{CallEnd, ObservedBody, status_of};
use super::operation::{UNMATCHED, grpc_status, http_operation, http_status, is_fault, rpc_method};
use super::trace::continue_trace;

/// Handles a request to a gRPC server, with a span and metrics named by its method. Other requests
/// are handled as by [`http_span`].
pub async fn request_span<F>(request: Request, handle: impl FnOnce(Request) -> F) -> Response
where
    F: Future<Output = Response>,
{
    match rpc_method(request.uri().path()) {
        Some(method) => rpc_span(method, request, handle).await,
        None => http_span(request, handle).await,
    }
}

async fn rpc_span<F>(method: &'static str, request: Request, handle: impl FnOnce(Request) -> F) -> Response
where
    F: Future<Output = Response>,
{
    let span = tracing::info_span!(
        "rpc",
        otel.name = method,
        otel.kind = "server",
        otel.status_code = field::Empty,
        rpc.system = "grpc",
        rpc.method = method,
        rpc.status = field::Empty,
        request.id = text_of(request.headers(), ferrite_proto::metadata::REQUEST_ID),
    );
    continue_trace(&span, request.headers());
    let call = ServedCall { method, span: span.clone(), started: Instant::now() };
    // Counts the request when dropped because the client disconnected.
    let pending = Pending(Some(call));
    let response = handle(request).instrument(span).await;
    let Some(call) = pending.done() else { return response };
    // A response without a body has the status in its headers, others in their trailers.
    match status_of(response.headers()) {
        Some(code) => {
            call.end(code);
            response
        }
        None => response.map(|body| Body::new(ObservedBody::new(body, call))),
    }
}

/// An RPC whose status is not known yet.
#[derive(Debug)]
struct ServedCall {
    method: &'static str,
    span: Span,
    started: Instant,
}

impl CallEnd for ServedCall {
    fn end(self, code: Code) {
        let (method, status, elapsed) = (self.method, grpc_status(code), self.started.elapsed());
        if is_exporting() {
            self.span.record("rpc.status", status);
            if is_fault(code) {
                self.span.record("otel.status_code", "ERROR");
            }
        }
        metrics::counter!("ferrite_grpc_server_requests_total", "operation" => method, "status" => status).increment(1);
        metrics::histogram!("ferrite_grpc_server_request_duration_seconds", "operation" => method).record(elapsed);
        let duration_ms = elapsed.as_millis();
        self.span.in_scope(|| tracing::debug!(duration_ms, status, "served {method}"));
    }
}

/// An RPC that has no response yet.
struct Pending(Option<ServedCall>);

impl Pending {
    fn done(mut self) -> Option<ServedCall> {
        self.0.take()
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some(call) = self.0.take() {
            call.end(Code::Cancelled);
        }
    }
}

/// Handles an HTTP request, with a span and metrics named by its route template. Must be called in
/// a layer added by `Router::layer` after the routes, because the request must already be routed.
pub async fn http_span<F>(request: Request, handle: impl FnOnce(Request) -> F) -> Response
where
    F: Future<Output = Response>,
{
    let route = request.extensions().get::<MatchedPath>().map_or(UNMATCHED, MatchedPath::as_str);
    let operation = http_operation(request.method(), route);
    let span = tracing::info_span!(
        "http",
        otel.name = operation,
        otel.kind = "server",
        otel.status_code = field::Empty,
        http.request.method = request.method().as_str(),
        http.route = operation.split_once(' ').map_or(UNMATCHED, |(_, route)| route),
        http.response.status_code = field::Empty,
        request.id = text_of(request.headers(), ferrite_proto::metadata::REQUEST_ID),
        // The address, or IPv6 network, that the gateway counts the client by.
        client.address = text_of(request.headers(), ferrite_proto::metadata::CLIENT),
    );
    continue_trace(&span, request.headers());
    let started = Instant::now();
    let response = handle(request).instrument(span.clone()).await;
    let (elapsed, status) = (started.elapsed(), http_status(response.status()));
    if is_exporting() {
        span.record("http.response.status_code", response.status().as_u16());
        if response.status().is_server_error() {
            span.record("otel.status_code", "ERROR");
        }
    }
    metrics::counter!("ferrite_http_server_requests_total", "operation" => operation, "status" => status).increment(1);
    metrics::histogram!("ferrite_http_server_request_duration_seconds", "operation" => operation).record(elapsed);
    let duration_ms = elapsed.as_millis();
    span.in_scope(|| tracing::debug!(duration_ms, status, "served {operation}"));
    response
}

fn text_of<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}
