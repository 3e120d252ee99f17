//! Reads path and headers of requests, and sets headers of responses.

use axum::{
    Extension,
    extract::{FromRequest, FromRequestParts as _, Path, Request},
    response::{IntoResponse as _, Response},
};
use ferrite_proto::{
    git_transport::{GIT_PROTOCOL_HEADER, GitProtocol},
    id::RepositoryId,
};
use ferrite_rpc::auth::Caller;
use git_store::types::error::GitError;
use http::{HeaderMap, HeaderValue, header};

use super::error_response::ErrorResponse;
use crate::state::AppState;

/// A request about the repository whose id is in the path.
pub(super) struct RepositoryRequest {
    pub(super) state: AppState,
    pub(super) id: RepositoryId,
    pub(super) caller: Caller,
    pub(super) request: Request,
}

impl FromRequest<AppState> for RepositoryRequest {
    type Rejection = Response;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, Response> {
        let (mut parts, body) = request.into_parts();
        let own = <(Path<String>, Extension<Caller>)>::from_request_parts(&mut parts, state).await?;
        let (Path(id), Extension(caller)) = own;
        let missing = |_| ErrorResponse::from(GitError::RepositoryNotFound).into_response();
        let (state, id) = (state.clone(), id.parse().map(RepositoryId).map_err(missing)?);
        Ok(Self { state, id, caller, request: Request::from_parts(parts, body) })
    }
}

pub(super) fn git_protocol(headers: &HeaderMap) -> Option<GitProtocol> {
    GitProtocol::parse(headers.get(GIT_PROTOCOL_HEADER)?.as_bytes())
}

/// Sets a header to a plain ASCII value, which is always valid.
pub(super) fn insert_header(headers: &mut HeaderMap, name: header::HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}
