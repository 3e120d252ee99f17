//! The layer around all routes: tracing span, panics, conditional requests, and completing the
//! response. It writes JSON: small responses inline, large ones on a blocking thread, and none
//! above the size limit.

use std::sync::{Arc, LazyLock};

use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::IF_NONE_MATCH;
use axum::http::{Method, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use ferrite_core::contain_panic;
use ferrite_core::telemetry::http_span;
use ferrite_listener::Client;
use serde::Serialize;

use super::conditional::ConditionalWrites;
use super::state::ApiState;
use crate::http::client_address::counted_client;
use crate::http::error::{ApiError, OperationId};
use crate::http::etag::{self, BodyTag};
use crate::http::json::{self, OverBudget, Unwritten};
use crate::http::redirect;
use crate::http::routes::Route;

/// Maximum response that is written without switching threads.
const MAX_INLINE_BYTES: usize = 64 * 1024;

/// The routes in the OpenAPI document, with their `operationId`.
static OPERATIONS: LazyLock<Vec<(Route, String)>> = LazyLock::new(|| {
    let routes = super::routes().into_iter().filter(|route| route.describe.is_some());
    routes.map(|route| (route, route.operation_id())).collect()
});

/// The response of a successful write whose real response would be too large.
#[derive(Serialize)]
struct Truncated {
    truncated: bool,
}

#[derive(Clone)]
pub(crate) struct Responder(Arc<ResponderParts>);

struct ResponderParts {
    api: ApiState,
    conditional: ConditionalWrites,
}

impl Responder {
    pub(crate) fn new(api: ApiState) -> Self {
        let reads = super::router().with_state(api.clone()).layer(from_fn_with_state(api.clone(), complete));
        let conditional = ConditionalWrites::new(reads, &super::routes());
        Self(Arc::new(ResponderParts { api, conditional }))
    }
}

/// Middleware of all routes. It is a single layer because axum clones each layer, with all those
/// inside, for every request.
pub(crate) async fn respond(State(responder): State<Responder>, request: Request, next: Next) -> Response {
    let on_panic = || ApiError::internal().into_response();
    let (method, template) = (request.method().clone(), request.extensions().get::<MatchedPath>().cloned());
    let work = |request: Request| async move {
        let Responder(parts) = responder;
        let handle = |request| complete(State(parts.api.clone()), request, next);
        parts.conditional.carry_out(request, handle).await
    };
    let mut response = http_span(request, |request| contain_panic(work(request), on_panic)).await;
    if response.extensions().get::<ApiError>().is_some() {
        let id = template.and_then(|template| operation_id(&method, template.as_str()));
        if let Some(id) = id {
            response.extensions_mut().insert(OperationId(id));
        }
    }
    response
}

/// Returns the `operationId`, to which error responses link.
fn operation_id(method: &Method, template: &str) -> Option<&'static str> {
    let mut operations = OPERATIONS.iter();
    let (_, id) = operations.find(|(route, _)| route.method == method.as_str() && route.path == template)?;
    Some(id)
}

/// Completes a handler's response: writes its JSON and tag unless the client already has it, and
/// redirects requests with a former repository name.
async fn complete(State(api): State<ApiState>, request: Request, next: Next) -> Response {
    let (method, uri) = (request.method().clone(), request.uri().clone());
    let template = request.extensions().get::<MatchedPath>().cloned();
    let client = counted_client(request.headers(), None);
    let if_none_match: Vec<_> = request.headers().get_all(IF_NONE_MATCH).iter().cloned().collect();
    let mut response = next.run(request).await;
    let Some(unwritten) = response.extensions_mut().remove::<Unwritten>() else {
        return redirect::to_present_name(&api.links, template.as_ref(), &method, &uri, response);
    };
    let is_read = method == Method::GET;
    let known = response.extensions_mut().remove::<BodyTag>();
    if let Some(tag) = &known
        && etag::matches(tag, &if_none_match)
    {
        return etag::not_modified(response, tag);
    }
    match bytes(&api, client, &unwritten, known).await {
        Ok((bytes, tag)) if is_read && response.status() == StatusCode::OK => {
            etag::conditional(response, bytes, tag, &if_none_match)
        }
        Ok((bytes, _)) => response.map(|_| Body::from(bytes)),
        Err(error) if is_read => error.into_response(),
        // The client must learn that the write is done, even if all threads are busy or the result
        // is too large.
        Err(_) => {
            let written = unwritten.write(api.max_response_bytes);
            let bytes = written.unwrap_or_else(|OverBudget| json::encode(&Truncated { truncated: true }));
            response.map(|_| Body::from(bytes))
        }
    }
}

/// Returns the bytes of a response, and their tag if it is `known` or the response is large.
///
/// # Errors
/// 422 for a response above the limit, 503 if too many large ones are being written.
async fn bytes(
    api: &ApiState,
    client: Client,
    unwritten: &Unwritten,
    known: Option<BodyTag>,
) -> Result<(Vec<u8>, Option<BodyTag>), ApiError> {
    let max_bytes = api.max_response_bytes;
    if let Ok(bytes) = unwritten.try_write(max_bytes.min(MAX_INLINE_BYTES)) {
        return Ok((bytes, known));
    }
    let large = unwritten.clone();
    let tagged = |bytes: Vec<u8>| (known.unwrap_or_else(|| BodyTag::of(&bytes)), bytes);
    let write = move |_: &_| large.write(max_bytes).map(tagged);
    match api.blocking.json.run(client, write).await? {
        Ok((tag, bytes)) => Ok((bytes, Some(tag))),
        Err(OverBudget) => {
            metrics::counter!("ferrite_responses_over_budget_total").increment(1);
            Err(over_budget(unwritten.is_page, max_bytes))
        }
    }
}

fn over_budget(is_page: bool, max_bytes: usize) -> ApiError {
    if is_page {
        let message = format!("the response would exceed {max_bytes} bytes, request fewer entries");
        return ApiError::invalid_field("limit", "too_long", message);
    }
    let message = format!("the response would exceed {max_bytes} bytes");
    ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, message)
}
