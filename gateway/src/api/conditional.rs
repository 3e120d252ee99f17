//! Conditional writes: a PATCH, PUT or DELETE with `If-Match` changes its resource only if that has the tag which its GET responds with.
//!
//! The gateway makes the GET of the same path with the client's credentials, and compares the tags. The service that writes compares the
//! version of the resource once more, in its transaction: so of several writers with one tag only the first succeeds, and those who may
//! not write learn that first.
//!
//! Not here: the form of the headers (`http/if_match.rs`), and the check in the services (`require_version` of `ferrite_db`).

use axum::Router;
use axum::body::Body;
use axum::extract::{MatchedPath, Request};
use axum::http::header::{
    CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG, EXPECT, HeaderName, IF_MATCH, IF_MODIFIED_SINCE,
    IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, RANGE, TRANSFER_ENCODING,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use ferrite_core::version::{Precondition, Version};
use ferrite_proto::{metadata, operation};
use ferrite_rpc::version::VersionedCall;
use tower::ServiceExt;

use crate::http::error::ApiError;
use crate::http::if_match::{IfMatch, is_create_only};
use crate::http::routes::Route;

/// Writes that take `If-None-Match: *`.
const CREATE_ONLY: [&str; 1] = [operation::PUT_CONTENTS];
/// Headers of a write that its GET does not have: they are about the body, or make a read of another kind.
const LEFT_OUT: [HeaderName; 13] = [
    CONTENT_ENCODING,
    CONTENT_LENGTH,
    CONTENT_TYPE,
    EXPECT,
    IF_MATCH,
    IF_MODIFIED_SINCE,
    IF_NONE_MATCH,
    IF_RANGE,
    IF_UNMODIFIED_SINCE,
    RANGE,
    TRANSFER_ENCODING,
    HeaderName::from_static(metadata::IDEMPOTENCY_KEY),
    HeaderName::from_static(metadata::PRECONDITION),
];

/// Carries out writes with preconditions.
pub(super) struct ConditionalWrites {
    /// The routes of the API without the layers that count requests of clients.
    reads: Router,
    routes: Vec<Route>,
}

/// The conditions of one write.
struct Conditions {
    operation: &'static str,
    if_match: Option<IfMatch>,
    is_create_only: bool,
    /// The GET of the same path; `None` if it has none.
    read: Option<Read>,
}

/// A GET for the tag of a resource.
struct Read {
    operation: &'static str,
    uri: Uri,
    headers: HeaderMap,
}

/// What a GET responds with.
enum Found {
    /// A resource with its tag, and with its version if the service tells that.
    Resource(HeaderValue, Option<Version>),
    /// No resource that has a tag, or none that the caller may read.
    Nothing,
    /// A failure by which nothing is known.
    Failed(Response),
}

impl Read {
    fn of(request: &Request, operation: &'static str) -> Self {
        let mut headers = request.headers().clone();
        for name in LEFT_OUT {
            headers.remove(name);
        }
        Self { operation, uri: request.uri().clone(), headers }
    }
}

impl ConditionalWrites {
    /// Returns one whose GETs are served by `reads`, which has `routes`.
    pub(super) fn new(reads: Router, routes: Vec<Route>) -> Self {
        Self { reads, routes }
    }

    /// Carries out a request by `handle`; a write with conditions with its precondition, if they are not known to be false. The response to
    /// one that is false has the tag as it is now.
    pub(super) async fn carry_out<F>(&self, mut request: Request, handle: impl FnOnce(Request) -> F) -> Response
    where
        F: Future<Output = Response>,
    {
        let conditions = match self.conditions(&request) {
            Ok(Some(conditions)) => conditions,
            Ok(None) => return handle(request).await,
            Err(error) => return error.into_response(),
        };
        let precondition = match self.precondition(&conditions).await {
            Ok(precondition) => precondition,
            Err(refusal) => return *refusal,
        };
        request.extensions_mut().insert(VersionedCall::requiring(conditions.operation, precondition));
        let mut response = handle(request).await;
        if response.status() == StatusCode::PRECONDITION_FAILED
            && let Found::Resource(tag, _) = self.read(conditions.read.as_ref()).await
        {
            response.headers_mut().insert(ETAG, tag);
        }
        response
    }

    /// Returns the conditions of a request, if it is a write that has some.
    ///
    /// # Errors
    /// 422 for a malformed `If-Match`.
    fn conditions(&self, request: &Request) -> Result<Option<Conditions>, ApiError> {
        let method = request.method();
        if !matches!(*method, Method::PATCH | Method::PUT | Method::DELETE) {
            return Ok(None);
        }
        let Some(template) = request.extensions().get::<MatchedPath>() else { return Ok(None) };
        let Some(operation) = self.operation(method.as_str(), template.as_str()) else { return Ok(None) };
        let if_match = IfMatch::of(request.headers())?;
        let is_create_only = CREATE_ONLY.contains(&operation) && is_create_only(request.headers());
        if if_match.is_none() && !is_create_only {
            return Ok(None);
        }
        let read = self.operation("GET", template.as_str()).map(|operation| Read::of(request, operation));
        Ok(Some(Conditions { operation, if_match, is_create_only, read }))
    }

    fn operation(&self, method: &str, template: &str) -> Option<&'static str> {
        let is_this = |route: &&Route| route.method == method && route.path == template;
        self.routes.iter().find(is_this).map(|route| route.operation)
    }

    /// Returns what the service must find when it writes.
    ///
    /// # Errors
    /// The failure of the GET. 412 or 503 if the service cannot compare versions.
    async fn precondition(&self, conditions: &Conditions) -> Result<Precondition, Box<Response>> {
        let Some(if_match) = &conditions.if_match else { return Ok(Precondition::Absent) };
        let (tag, version) = match self.read(conditions.read.as_ref()).await {
            Found::Resource(tag, version) => (tag, version),
            Found::Nothing => return Ok(Precondition::Never),
            Found::Failed(response) => return Err(Box::new(response)),
        };
        // What exists is not created.
        let is_true = if_match.matches(&tag) && !conditions.is_create_only;
        match version {
            Some(_) if !is_true => Ok(Precondition::Never),
            Some(_) if *if_match == IfMatch::Any => Ok(Precondition::Exists),
            Some(version) => Ok(Precondition::Version(version)),
            // A service of the version before, which would not look at the precondition.
            None if is_true => Err(Box::new(ApiError::unavailable().into_response())),
            None => {
                let error = ApiError::new(StatusCode::PRECONDITION_FAILED, "precondition failed");
                let mut response = error.into_response();
                response.headers_mut().insert(ETAG, tag);
                Err(Box::new(response))
            }
        }
    }

    async fn read(&self, read: Option<&Read>) -> Found {
        let Some(read) = read else { return Found::Nothing };
        let versioned = VersionedCall::asking(read.operation);
        let mut request = Request::new(Body::empty());
        *request.uri_mut() = read.uri.clone();
        *request.headers_mut() = read.headers.clone();
        request.extensions_mut().insert(versioned.clone());
        let Ok(response) = self.reads.clone().oneshot(request).await;
        let status = response.status();
        if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
            return Found::Failed(response);
        }
        match response.headers().get(ETAG) {
            Some(tag) if status == StatusCode::OK => Found::Resource(tag.clone(), versioned.told()),
            Some(_) | None => Found::Nothing,
        }
    }
}
