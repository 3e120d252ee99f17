//! Calls of the REST API of the demo.

use std::time::Duration;

use axum::http::Method;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ferrite_outbound::{AllowList, Client, Headers, Limits, OutboundUrl, Policy, Request};
use serde_json::Value;

use crate::output::error_chain;

const CALL_TIMEOUT: Duration = Duration::from_secs(30);

pub(super) struct Api {
    root: String,
    client: Client,
}

pub(super) struct Authorization(String);

impl Authorization {
    pub(super) fn password(username: &str, password: &str) -> Self {
        Self(format!("Basic {}", STANDARD.encode(format!("{username}:{password}"))))
    }

    pub(super) fn token(token: &str) -> Self {
        Self(format!("token {token}"))
    }
}

impl Api {
    pub(super) fn new(url: &str) -> Result<Self, String> {
        let address = url.trim_start_matches("http://");
        let allowed = address.parse::<AllowList>().map_err(|error| format!("unexpected server URL {url}: {error}"))?;
        Ok(Self { root: format!("{url}/api/v1"), client: Client::new(Policy::new(allowed)) })
    }

    pub(super) async fn post(&self, path: &str, authorization: &Authorization, body: &Value) -> Result<Value, String> {
        self.send(Method::POST, path, authorization, body).await
    }

    pub(super) async fn put(&self, path: &str, authorization: &Authorization, body: &Value) -> Result<Value, String> {
        self.send(Method::PUT, path, authorization, body).await
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        authorization: &Authorization,
        body: &Value,
    ) -> Result<Value, String> {
        let call = format!("{method} {path}");
        let url = OutboundUrl::parse(&format!("{}{path}", self.root), self.client.policy());
        let url = url.map_err(|error| format!("{call}: the URL {error}"))?;
        let mut headers = Headers::new();
        for (name, value) in [("authorization", authorization.0.as_str()), ("content-type", "application/json")] {
            headers.set(name, value).map_err(|error| format!("{call}: {error}"))?;
        }
        let limits = Limits { total: CALL_TIMEOUT, ..Limits::default() };
        let request = Request { url: &url, method, headers, body: body.to_string().into(), limits };
        let response = self.client.send(request).await.map_err(|error| format!("{call}: {}", error_chain(&error)))?;
        if !response.status.is_success() {
            let reason = String::from_utf8_lossy(&response.body).into_owned();
            return Err(format!("{call}: {}: {}", response.status, reason.trim()));
        }
        serde_json::from_slice(&response.body).map_err(|error| format!("{call}: {error}"))
    }
}
