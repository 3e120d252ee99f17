//! The collection of access tokens: the one place of the API where a password is asked for.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use ferrite_proto::repo::{
    BasicCredential, CreateAccessTokenRequest, DeleteAccessTokenRequest, ListAccessTokensRequest,
};

use crate::auth::{Call, Password};
use crate::body::{JSON_BYTES, Payload};
use crate::dto::{AccessToken, present};
use crate::error::ApiError;
use crate::json;
use crate::page::{Query, WHOLE};
use crate::path::UserPath;
use crate::state::Gateway;

/// `GET /users/{username}/tokens`
pub(crate) async fn list(
    State(gateway): State<Gateway>,
    Password(call, credential): Password,
    path: UserPath,
    query: Query,
) -> Result<Response, ApiError> {
    let page = query.page(WHOLE);
    let request = ListAccessTokensRequest {
        credential: Some(credential),
        username: path.username.unwrap_or_default(),
        page: page.number,
        page_size: page.size,
    };
    let answer =
        gateway.clients.accounts().list_access_tokens(call.bare(request)).await.map_err(challenged)?.into_inner();
    let tokens: Vec<_> =
        answer.tokens.into_iter().map(|token| AccessToken { name: token.name, sha1: token.digest }).collect();
    Ok(json::page(tokens, query.headers(page, answer.total_count, &gateway.links)))
}

/// `POST /users/{username}/tokens`
pub(crate) async fn create(
    State(gateway): State<Gateway>,
    Password(call, credential): Password,
    path: UserPath,
    payload: Payload,
) -> Result<Response, ApiError> {
    let username = path.username.unwrap_or_default();
    let named = payload.fields(&gateway, JSON_BYTES).await.and_then(|mut fields| {
        let name = fields.required("name");
        fields.finish().map(|_slot| name)
    });
    let name = match named {
        Ok(name) => name,
        Err(error) => return Err(refusal(&gateway, &call, credential, username, error).await),
    };
    let request = CreateAccessTokenRequest { credential: Some(credential), username, name };
    let answer =
        gateway.clients.accounts().create_access_token(call.bare(request)).await.map_err(challenged)?.into_inner();
    let token = present(answer.token, "token")?;
    Ok(json::created(AccessToken { name: token.name, sha1: answer.value }))
}

/// `DELETE /users/{username}/tokens/{name}`
pub(crate) async fn remove(
    State(gateway): State<Gateway>,
    Password(call, credential): Password,
    path: UserPath,
) -> Result<Response, ApiError> {
    let username = path.username.unwrap_or_default();
    let Some(name) = path.rest else {
        let error = ApiError::not_found("token does not exist");
        return Err(refusal(&gateway, &call, credential, username, error).await);
    };
    let request = DeleteAccessTokenRequest { credential: Some(credential), username, name };
    gateway.clients.accounts().delete_access_token(call.bare(request)).await.map_err(challenged)?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

fn challenged(status: tonic::Status) -> ApiError {
    ApiError::from(status).challenged()
}

/// A wrong password is the first thing wrong with a request, before `error`.
async fn refusal(
    gateway: &Gateway,
    call: &Call,
    credential: BasicCredential,
    username: String,
    error: ApiError,
) -> ApiError {
    let request = ListAccessTokensRequest { credential: Some(credential), username, page: 1, page_size: 1 };
    match gateway.clients.accounts().list_access_tokens(call.bare(request)).await {
        Ok(_) => error,
        Err(status) => challenged(status),
    }
}
