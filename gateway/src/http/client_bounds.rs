//! Limits per address: concurrent requests, and memory for unread responses.

use std::sync::Arc;

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use ferrite_listener::{Client, Quota, RequestPermit, ResponseMemory};

use super::client_address::ClientAddress;
use super::error::ApiError;

#[derive(Clone, Debug)]
pub(crate) struct ClientBounds {
    /// Requests without a complete response.
    pub(crate) requests: Quota,
    /// Responses that clients have not read yet.
    pub(crate) responses: ResponseMemory,
}

impl ClientBounds {
    /// Passes a request to `next`, and counts it and its response until the client has read that.
    /// Responds with 503 above a limit.
    pub(crate) async fn run(&self, request: Request, next: Next) -> Response {
        let address = request.extensions().get::<ClientAddress>().map(|ClientAddress(address)| *address);
        let Ok(share) = self.requests.take(Client { address, user: None }) else {
            metrics::counter!("ferrite_requests_refused_total", "reason" => "address").increment(1);
            return ApiError::busy("too many concurrent requests from this address").into_response();
        };
        let version = request.version();
        let response = next.run(request).await;
        match self.responses.hold(address, version, response) {
            Ok(mut response) => {
                response.extensions_mut().insert(RequestPermit(Arc::new(share)));
                response
            }
            Err(full) => {
                metrics::counter!("ferrite_waiting_responses_refused_total").increment(1);
                let message = format!("{} bytes of responses are unread, read them and try again", full.held_bytes);
                ApiError::busy(message).into_response()
            }
        }
    }
}
