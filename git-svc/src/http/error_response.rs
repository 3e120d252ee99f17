use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use ferrite_proto::{
    error::{Kind, ServiceError as _},
    metadata::REASON,
};
use git_store::types::error::GitError;
use http::{HeaderValue, StatusCode, header};

use crate::rpc_error::RpcError;

#[derive(Debug)]
pub(super) struct ErrorResponse(RpcError);

impl<E: Into<RpcError>> From<E> for ErrorResponse {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

fn status(failure: &RpcError) -> StatusCode {
    match failure {
        RpcError::Git(GitError::MirrorReadOnly) => return StatusCode::FORBIDDEN,
        RpcError::Git(GitError::TooSlow) => return StatusCode::REQUEST_TIMEOUT,
        RpcError::Git(GitError::StoreFull) => return StatusCode::INSUFFICIENT_STORAGE,
        _ => {}
    }
    match failure.kind() {
        Kind::InvalidArgument => StatusCode::BAD_REQUEST,
        Kind::NotFound => StatusCode::NOT_FOUND,
        Kind::AlreadyExists | Kind::Aborted | Kind::FailedPrecondition => StatusCode::CONFLICT,
        Kind::PermissionDenied => StatusCode::FORBIDDEN,
        Kind::Unauthenticated => StatusCode::UNAUTHORIZED,
        Kind::RateLimited => StatusCode::TOO_MANY_REQUESTS,
        Kind::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        Kind::Overloaded => StatusCode::SERVICE_UNAVAILABLE,
        Kind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

impl IntoResponse for ErrorResponse {
    fn into_response(self) -> Response {
        let Self(failure) = self;
        failure.log();
        let text = if failure.kind() == Kind::Internal { "internal error".to_owned() } else { failure.to_string() };
        let mut response = Response::new(Body::from(text.replace('\n', " ") + "\n"));
        *response.status_mut() = status(&failure);
        let headers = response.headers_mut();
        headers.insert(REASON, HeaderValue::from_static(failure.reason()));
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        if let Some(after) = failure.retry_after() {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(after.as_secs().max(1)));
        }
        response
    }
}
