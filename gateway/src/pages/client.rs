//! The pages' client of REST v1, in the same process: each call goes through the routes, checks and
//! limits of the API, so that a page can show and do nothing that the API cannot.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, LOCATION};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ferrite_core::Secret;
use ferrite_proto::metadata;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tower::ServiceExt;

use super::components::Listed;
use super::error::{PageError, PageResult};
use crate::http::error::ApiError;

const API: &str = "/api/v1/";
const TOTAL: HeaderName = HeaderName::from_static("x-total-count");
const PREFER: HeaderName = HeaderName::from_static("prefer");
/// Headers of the visitor's request that count and trace its calls.
const FORWARDED: [HeaderName; 2] =
    [HeaderName::from_static(metadata::REQUEST_ID), HeaderName::from_static(metadata::CLIENT)];

/// Calls the API for one visitor.
#[derive(Clone)]
pub(super) struct Client {
    router: Router,
    session: Option<Secret>,
    /// Used in place of the session.
    password: Option<HeaderValue>,
    headers: HeaderMap,
    max_bytes: usize,
}

#[derive(Deserialize)]
struct Found<T> {
    data: Vec<T>,
}

fn total(response: &Response) -> Option<u64> {
    response.headers().get(TOTAL)?.to_str().ok()?.parse().ok()
}

impl Client {
    pub(super) fn new(router: Router, session: Option<Secret>, headers: &HeaderMap, max_bytes: usize) -> Self {
        let forwarded = FORWARDED.into_iter().filter_map(|name| Some((name.clone(), headers.get(name)?.clone())));
        Self { router, session, password: None, headers: forwarded.collect(), max_bytes }
    }

    /// The session whose rights the calls have.
    pub(super) fn session(&self) -> Option<&Secret> {
        self.session.as_ref()
    }

    /// The same client with a password in place of the session, for operations that take no session.
    pub(super) fn with_password(&self, username: &str, password: &str) -> Self {
        let value = format!("Basic {}", STANDARD.encode(format!("{username}:{password}")));
        let mut value = HeaderValue::try_from(value).expect("base64 is ASCII");
        value.set_sensitive(true);
        Self { password: Some(value), ..self.clone() }
    }

    /// Reads a value. `path` is encoded, and relative to `/api/v1/`.
    pub(super) async fn get<T: DeserializeOwned>(&self, path: &str) -> PageResult<T> {
        let response = self.call(Method::GET, path, None).await?;
        self.value(response).await
    }

    /// As [`Self::get`]; `None` for what does not exist.
    pub(super) async fn find<T: DeserializeOwned>(&self, path: &str) -> PageResult<Option<T>> {
        match self.get(path).await {
            Err(error) if error.status() == StatusCode::NOT_FOUND => Ok(None),
            found => found.map(Some),
        }
    }

    /// Returns whether something exists whose response has no body, such as a star.
    pub(super) async fn exists(&self, path: &str) -> PageResult<bool> {
        match self.call(Method::GET, path, None).await {
            Ok(_) => Ok(true),
            Err(error) if error.status() == StatusCode::NOT_FOUND => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Reads a page of a list.
    pub(super) async fn list<T: DeserializeOwned>(&self, path: &str) -> PageResult<Listed<T>> {
        let response = self.call(Method::GET, path, None).await?;
        let total = total(&response);
        Ok(Listed { items: self.value(response).await?, total })
    }

    /// Reads a page of a search, whose list is a field.
    pub(super) async fn search<T: DeserializeOwned>(&self, path: &str) -> PageResult<Listed<T>> {
        let response = self.call(Method::GET, path, None).await?;
        let total = total(&response);
        let Found { data } = self.value(response).await?;
        Ok(Listed { items: data, total })
    }

    /// Reads a text, such as a diff.
    pub(super) async fn text(&self, path: &str) -> PageResult<String> {
        let response = self.call(Method::GET, path, None).await?;
        let bytes = self.bytes(response).await?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Returns a response as it is, such as a file.
    pub(super) async fn pass(&self, path: &str, conditions: &HeaderMap) -> PageResult<Response> {
        self.pass_of_site(&format!("{API}{path}"), conditions).await
    }

    /// As [`Self::pass`], of an operation whose path is not that of the API, such as a download.
    pub(super) async fn pass_of_site(&self, path: &str, conditions: &HeaderMap) -> PageResult<Response> {
        let mut request = self.request_of_site(Method::GET, path, None)?;
        request.headers_mut().extend(conditions.clone());
        self.send(request).await
    }

    /// Sends a change and returns the response's value, null without one.
    pub(super) async fn change(&self, method: Method, path: &str, body: Option<Value>) -> PageResult<Value> {
        let response = self.call(method, path, body).await?;
        self.optional_value(response).await
    }

    /// As [`Self::change`], with a preference of RFC 7240, such as how long to wait.
    pub(super) async fn change_preferring(
        &self,
        method: Method,
        path: &str,
        body: Value,
        preference: &'static str,
    ) -> PageResult<Value> {
        let mut request = self.request(method, path, Some(body))?;
        request.headers_mut().insert(PREFER, HeaderValue::from_static(preference));
        let response = self.send(request).await?;
        self.optional_value(response).await
    }

    /// Posts a file as it arrives, and returns the response's value.
    pub(super) async fn upload(&self, path: &str, content: Body) -> PageResult<Value> {
        let mut request = self.request(Method::POST, path, None)?;
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
        *request.body_mut() = content;
        let response = self.send(request).await?;
        self.optional_value(response).await
    }

    /// Renders Markdown. `repository`, `owner/name`, is what references such as `#1` belong to.
    pub(super) async fn markdown(&self, text: &str, repository: &str) -> PageResult<String> {
        let body = serde_json::json!({"text": text, "mode": "gfm", "context": repository});
        let response = self.call(Method::POST, "markdown", Some(body)).await?;
        let bytes = self.bytes(response).await?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    async fn call(&self, method: Method, path: &str, body: Option<Value>) -> PageResult<Response> {
        self.send(self.request(method, path, body)?).await
    }

    fn request(&self, method: Method, path: &str, body: Option<Value>) -> PageResult<Request> {
        self.request_of_site(method, &format!("{API}{path}"), body)
    }

    fn request_of_site(&self, method: Method, path: &str, body: Option<Value>) -> PageResult<Request> {
        let mut request = Request::builder().method(method).uri(path);
        if let Some(headers) = request.headers_mut() {
            headers.extend(self.headers.clone());
            headers.extend(self.authorization().map(|value| (AUTHORIZATION, value)));
            if body.is_some() {
                headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            }
        }
        let body = body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
        // A path that is no URL names nothing.
        request.body(body).map_err(|_| PageError::not_found())
    }

    fn authorization(&self) -> Option<HeaderValue> {
        if self.password.is_some() {
            return self.password.clone();
        }
        let mut value = HeaderValue::try_from(format!("token {}", self.session.as_ref()?.expose())).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    async fn send(&self, request: Request) -> PageResult<Response> {
        let response = self.router.clone().oneshot(request).await.unwrap_or_else(|never| match never {});
        if response.status().is_redirection()
            && let Some(location) = response.headers().get(LOCATION).and_then(|location| location.to_str().ok())
            && let Some((_, path)) = location.split_once(API)
        {
            return Err(PageError::moved(path));
        }
        match response.extensions().get::<ApiError>() {
            Some(error) => Err(PageError::from(error.clone())),
            // No route matches, as with an empty id in the path.
            None if response.status() == StatusCode::NOT_FOUND => Err(PageError::not_found()),
            None => Ok(response),
        }
    }

    async fn optional_value(&self, response: Response) -> PageResult<Value> {
        let bytes = self.bytes(response).await?;
        if bytes.is_empty() { Ok(Value::Null) } else { parse(&bytes) }
    }

    async fn value<T: DeserializeOwned>(&self, response: Response) -> PageResult<T> {
        parse(&self.bytes(response).await?)
    }

    async fn bytes(&self, response: Response) -> PageResult<axum::body::Bytes> {
        to_bytes(response.into_body(), self.max_bytes).await.map_err(|error| {
            tracing::warn!("a page's call of the API broke off: {error}");
            PageError::from(ApiError::unavailable())
        })
    }
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> PageResult<T> {
    serde_json::from_slice(bytes).map_err(|error| {
        tracing::error!("a page cannot read a response of the API: {error}");
        PageError::from(ApiError::internal())
    })
}
