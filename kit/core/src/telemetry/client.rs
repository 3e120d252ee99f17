//! Calls to other services: their span, and metrics by callee and method.

use std::time::Instant;

use http::Response;
use tonic::Code;
use tonic::body::Body;
use tracing::{Span, field};

use super::observed_body::{CallEnd, ObservedBody, status_of};
use super::operation::{UNMATCHED, grpc_status, is_fault, rpc_method};
use super::trace::is_sampled;

/// A call to another service. If dropped without a status, it counts as cancelled.
#[derive(Debug)]
pub struct ClientCall(Option<Sent>);

#[derive(Debug)]
struct Sent {
    callee: &'static str,
    method: &'static str,
    span: Span,
    started: Instant,
}

impl ClientCall {
    /// Begins a call of the RPC at `path` to the service `callee`. Creates a span if the trace is
    /// exported.
    pub fn begin(callee: &'static str, path: &str) -> Self {
        let method = rpc_method(path).unwrap_or(UNMATCHED);
        let span = if is_sampled() {
            tracing::info_span!(
                "rpc_client",
                otel.name = method,
                otel.kind = "client",
                otel.status_code = field::Empty,
                rpc.system = "grpc",
                rpc.method = method,
                rpc.status = field::Empty,
                peer.service = callee,
            )
        } else {
            Span::none()
        };
        Self(Some(Sent { callee, method, span, started: Instant::now() }))
    }

    /// Returns the span of the call; disabled outside an exported trace.
    pub fn span(&self) -> Span {
        self.0.as_ref().map_or_else(Span::none, |sent| sent.span.clone())
    }

    /// Wraps the response. Its trailers end the call.
    pub fn response(mut self, response: Response<Body>) -> Response<Body> {
        let Some(sent) = self.0.take() else { return response };
        match status_of(response.headers()) {
            Some(code) => {
                sent.end(code);
                response
            }
            None => response.map(|body| Body::new(ObservedBody::new(body, sent))),
        }
    }

    /// Ends a call that got no response.
    pub fn failed(mut self) {
        if let Some(sent) = self.0.take() {
            sent.end(Code::Unavailable);
        }
    }

    /// Counts a retry.
    pub fn retried(path: &str) {
        let method = rpc_method(path).unwrap_or(UNMATCHED);
        metrics::counter!("ferrite_grpc_client_retries_total", "operation" => method).increment(1);
    }
}

impl Drop for ClientCall {
    fn drop(&mut self) {
        if let Some(sent) = self.0.take() {
            sent.end(Code::Cancelled);
        }
    }
}

impl CallEnd for Sent {
    fn end(self, code: Code) {
        let (callee, method, status) = (self.callee, self.method, grpc_status(code));
        self.span.record("rpc.status", status);
        if is_fault(code) {
            self.span.record("otel.status_code", "ERROR");
        }
        let elapsed = self.started.elapsed();
        metrics::counter!(
            "ferrite_grpc_client_requests_total",
            "callee" => callee, "operation" => method, "status" => status
        )
        .increment(1);
        metrics::histogram!(
            "ferrite_grpc_client_request_duration_seconds",
            "callee" => callee, "operation" => method
        )
        .record(elapsed);
    }
}
