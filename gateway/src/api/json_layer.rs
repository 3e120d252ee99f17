//! The layer that writes JSON responses: small ones at once, large ones on a blocking thread, and none above the budget.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::state::ApiState;
use crate::http::error::{ApiError, FieldError};
use crate::http::etag::BodyTag;
use crate::http::json::{self, OverBudget, Unwritten};

/// Most bytes of a response that is written without a change of threads.
const MAX_INLINE_BYTES: usize = 64 * 1024;

/// The response to a write that is done, in place of one that would be too large.
#[derive(Serialize)]
struct Truncated {
    truncated: bool,
}

/// Middleware that writes the value of a response.
pub(crate) async fn write_json(State(api): State<ApiState>, request: Request, next: Next) -> Response {
    let is_read = request.method() == Method::GET;
    let mut response = next.run(request).await;
    let Some(unwritten) = response.extensions_mut().remove::<Unwritten>() else { return response };
    match bytes(&api, &unwritten).await {
        Ok((bytes, tag)) => {
            if let Some(tag) = tag {
                response.extensions_mut().insert(tag);
            }
            *response.body_mut() = Body::from(bytes);
            response
        }
        Err(error) if is_read => error.into_response(),
        // The client must learn that the write is done, also when the threads are busy or its result is too large.
        Err(_) => {
            let written = unwritten.write(api.max_response_bytes);
            let bytes = written.unwrap_or_else(|OverBudget| json::encode(&Truncated { truncated: true }));
            *response.body_mut() = Body::from(bytes);
            response
        }
    }
}

/// Returns the bytes of a response, and their tag if they are many.
///
/// # Errors
/// 422 for a response above the budget, 503 when too many large ones are written.
async fn bytes(api: &ApiState, unwritten: &Unwritten) -> Result<(Vec<u8>, Option<BodyTag>), ApiError> {
    let max_bytes = api.max_response_bytes;
    if let Ok(bytes) = unwritten.try_write(max_bytes.min(MAX_INLINE_BYTES)) {
        return Ok((bytes, None));
    }
    let large = unwritten.clone();
    let written =
        api.blocking.json.run(move || large.write(max_bytes).map(|bytes| (BodyTag::of(&bytes), bytes))).await?;
    match written {
        Ok((tag, bytes)) => Ok((bytes, Some(tag))),
        Err(OverBudget) => {
            metrics::counter!("ferrite_responses_over_budget_total").increment(1);
            Err(over_budget(unwritten.is_page, max_bytes))
        }
    }
}

fn over_budget(is_page: bool, max_bytes: usize) -> ApiError {
    if is_page {
        let message = format!("the response would have more than {max_bytes} bytes, ask for fewer entries");
        return ApiError::invalid(vec![FieldError { field: "limit".into(), code: "too_long".into(), message }]);
    }
    let message = format!("the response would have more than {max_bytes} bytes");
    ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, message)
}
