//! The collection of access tokens: the one place of the API where a password is asked for.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use ferrite_proto::repo::{
    BasicCredential, CreateAccessTokenRequest, DeleteAccessTokenRequest, ListAccessTokensRequest,
};

use super::operation;
use crate::auth::{Call, Password};
use crate::dto::{AccessToken, ListedToken, NewToken, present};
use crate::http::body::{Fields, JSON_BYTES, Payload};
use crate::http::error::ApiError;
use crate::http::json;
use crate::http::page::{Query, WHOLE};
use crate::http::path::Params;
use crate::http::routes::routes;
use crate::state::Gateway;

routes! { Gateway:
    "/api/v1/users/{username}/tokens" =>
        get list as operation::LIST_ACCESS_TOKENS,
        post create as operation::CREATE_ACCESS_TOKEN;
    "/api/v1/users/{username}/tokens/{name}" => delete remove as operation::DELETE_ACCESS_TOKEN;
}

async fn list(
    State(gateway): State<Gateway>,
    Password(call, credential): Password,
    path: Params,
    query: Query,
) -> Result<Response, ApiError> {
    let page = query.page(WHOLE);
    let request = ListAccessTokensRequest {
        credential: Some(credential),
        username: path.name("username"),
        page: page.number,
        page_size: page.size,
    };
    let answer =
        gateway.clients.accounts().list_access_tokens(call.bare(request)).await.map_err(challenged)?.into_inner();
    let tokens = answer.tokens.into_iter().map(ListedToken::new).collect::<Result<Vec<_>, _>>()?;
    Ok(json::page(tokens, query.headers(page, answer.total_count, &gateway.links)))
}

async fn create(
    State(gateway): State<Gateway>,
    Password(call, credential): Password,
    path: Params,
    payload: Payload,
) -> Result<Response, ApiError> {
    let username = path.name("username");
    let request = match payload.fields(&gateway, JSON_BYTES).await.and_then(decode) {
        Ok(decoded) => CreateAccessTokenRequest { credential: Some(credential), username, ..decoded },
        Err(error) => return Err(refusal(&gateway, &call, credential, username, error).await),
    };
    let is_plain = request.scopes.is_empty() && request.expire_time.is_none() && request.repositories.is_empty();
    let answer =
        gateway.clients.accounts().create_access_token(call.bare(request)).await.map_err(challenged)?.into_inner();
    let token = present(answer.token, "token")?;
    if is_plain {
        // Who sent what clients have always sent gets what they have always got.
        return Ok(json::created(AccessToken { name: token.name, sha1: answer.value }));
    }
    Ok(json::created(NewToken::new(token, answer.value)?))
}

/// What a body says; whose token it is to be, and who asks, is for the caller to add.
fn decode(mut fields: Fields) -> Result<CreateAccessTokenRequest, ApiError> {
    let decoded = CreateAccessTokenRequest {
        credential: None,
        username: String::new(),
        name: fields.required("name"),
        scopes: fields.texts("scopes"),
        expire_time: fields.optional_time("expires_at"),
        repositories: fields.texts("repositories"),
    };
    fields.finish().map(|_slot| decoded)
}

async fn remove(
    State(gateway): State<Gateway>,
    Password(call, credential): Password,
    path: Params,
) -> Result<Response, ApiError> {
    let request = DeleteAccessTokenRequest {
        credential: Some(credential),
        username: path.name("username"),
        name: path.name("name"),
    };
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
