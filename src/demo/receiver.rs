//! The receiver of webhooks. Prints one line per delivery.

use std::net::{Ipv4Addr, SocketAddr};

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use serde_json::Value;
use tokio::net::TcpListener;

use crate::output::print_line;

pub(super) struct Receiver {
    listener: TcpListener,
    address: SocketAddr,
}

impl Receiver {
    pub(super) async fn bind() -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("cannot listen on a loopback port for webhooks: {error}");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Receives deliveries. Returns only if it fails.
    pub(super) async fn serve(self) -> Result<(), String> {
        let router = Router::new().route("/", post(receive));
        axum::serve(self.listener, router).await.map_err(|error| format!("cannot receive webhooks: {error}"))
    }
}

async fn receive(headers: HeaderMap, body: Bytes) -> StatusCode {
    let payload = serde_json::from_slice::<Value>(&body);
    let status = if payload.is_ok() { StatusCode::OK } else { StatusCode::BAD_REQUEST };
    let event = headers.get("x-ferrite-event").and_then(|value| value.to_str().ok()).unwrap_or_default();
    print_line(&delivery_line(event, &payload.unwrap_or_default(), status));
    status
}

/// Returns the line for a delivery: event, action, repository, and status of the response.
fn delivery_line(event: &str, payload: &Value, status: StatusCode) -> String {
    let action = payload["action"].as_str().map_or_else(String::new, |action| format!(" ({action})"));
    let repository = payload["repository"]["full_name"].as_str().unwrap_or("no repository");
    // Any local process can send a payload.
    format!("webhook: {event}{action}, {repository}, {}", status.as_u16()).replace(char::is_control, " ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_delivery_is_one_line() {
        let line = |event: &str, payload: Value| delivery_line(event, &payload, StatusCode::OK);
        let repository = json!({"full_name": "acme/hello"});
        assert_eq!(
            line("issues", json!({"action": "opened", "repository": repository})),
            "webhook: issues (opened), acme/hello, 200"
        );
        assert_eq!(line("push", json!({"repository": repository})), "webhook: push, acme/hello, 200");
        assert_eq!(line("ping", json!({"action": "a\nb\u{1b}"})), "webhook: ping (a b ), no repository, 200");
    }
}
