//! Bounds on what the clients of one address have at once: requests, and responses that they have not read.

use std::sync::Arc;

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use ferrite_listener::{Client, Quota, RequestPermit, ResponseMemory};

use super::client_address::ClientAddress;
use super::error::ApiError;

/// The counts of all clients; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct ClientBounds {
    /// Requests without a complete response.
    pub(crate) requests: Quota,
    /// Responses that wait for their clients.
    pub(crate) responses: ResponseMemory,
}

impl ClientBounds {
    /// Hands a request to `next`, and counts it and its response until the client has taken that. Beyond a bound, the client is told to
    /// come back later.
    pub(crate) async fn run(&self, request: Request, next: Next) -> Response {
        let address = request.extensions().get::<ClientAddress>().map(|ClientAddress(address)| *address);
        let Ok(share) = self.requests.take(Client { address, user: None }) else {
            metrics::counter!("ferrite_requests_refused_total", "reason" => "address").increment(1);
            return ApiError::busy("too many requests of one address at once").into_response();
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
                let message =
                    format!("{} bytes of responses wait to be read, try again when they are", full.held_bytes);
                ApiError::busy(message).into_response()
            }
        }
    }
}
