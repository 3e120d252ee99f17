//! Access tokens of a user: the only operations of the API that need a password.

use ferrite_proto::operation;
use ferrite_proto::repo::{
    BasicCredential, CreateAccessTokenRequest, DeleteAccessTokenRequest, ListAccessTokensRequest,
};

use crate::api::call::{ApiCall, BasicAuth, routes};
use crate::dto::{AccessToken, ListedToken, NewToken, require};
use crate::http::body::JsonBody;
use crate::http::body_limits::MAX_UNVERIFIED_BODY_BYTES;
use crate::http::error::{ApiError, ApiResult};
use crate::http::fields::FieldReader;
use crate::http::json;
use crate::http::page::PageLimits;
use crate::http::path::Params;
use crate::http::query::Query;

routes! {
    "/api/v1/users/{username}/tokens" =>
        get list as operation::LIST_ACCESS_TOKENS,
        post create as operation::CREATE_ACCESS_TOKEN;
    "/api/v1/users/{username}/tokens/{name}" => delete remove as operation::DELETE_ACCESS_TOKEN;
}

async fn list(BasicAuth(call, credential): BasicAuth, path: Params, query: Query) -> ApiResult {
    let page = query.page(PageLimits::WHOLE_LIST);
    let request = ListAccessTokensRequest {
        credential: Some(credential),
        username: path.name("username"),
        page: page.number,
        page_size: page.size,
    };
    let request = call.request_without_token(request);
    let response =
        call.clients.accounts().list_access_tokens(request).await.map_err(error_with_challenge)?.into_inner();
    let tokens = response.tokens.into_iter().map(ListedToken::new).collect::<Result<Vec<_>, _>>()?;
    Ok(json::page(tokens, query.headers(page, response.total_count, &call.links)))
}

async fn create(BasicAuth(call, credential): BasicAuth, path: Params, body: JsonBody) -> ApiResult {
    let username = path.name("username");
    // The password is checked together with the request, so the body has no more bytes than are read for anybody.
    let request = match body.decode(&call.body_limits, MAX_UNVERIFIED_BODY_BYTES, decode).await {
        Ok((decoded, _permit)) => CreateAccessTokenRequest { credential: Some(credential), username, ..decoded },
        Err(error) => return Err(prefer_password_error(&call, credential, username, error).await),
    };
    let is_plain = request.scopes.is_empty() && request.expire_time.is_none() && request.repositories.is_empty();
    let request = call.request_without_token(request);
    let response =
        call.clients.accounts().create_access_token(request).await.map_err(error_with_challenge)?.into_inner();
    let token = require(response.token, "token")?;
    if is_plain {
        // A request with a name only gets the response that older clients expect.
        return Ok(json::created(AccessToken { name: token.name, sha1: response.value }));
    }
    Ok(json::created(NewToken::new(token, response.value)?))
}

/// Decodes a body. The caller adds the credential and the user name.
fn decode(fields: &mut FieldReader) -> CreateAccessTokenRequest {
    CreateAccessTokenRequest {
        credential: None,
        username: String::new(),
        name: fields.required_non_empty("name"),
        scopes: fields.texts("scopes"),
        expire_time: fields.optional_time("expires_at"),
        repositories: fields.texts("repositories"),
    }
}

async fn remove(BasicAuth(call, credential): BasicAuth, path: Params) -> ApiResult {
    let request = DeleteAccessTokenRequest {
        credential: Some(credential),
        username: path.name("username"),
        name: path.name("name"),
    };
    let request = call.request_without_token(request);
    call.clients.accounts().delete_access_token(request).await.map_err(error_with_challenge)?;
    Ok(json::no_content())
}

fn error_with_challenge(status: tonic::Status) -> ApiError {
    ApiError::from(status).with_challenge()
}

/// Returns the error of a request in which `error` was found: a wrong password comes first.
async fn prefer_password_error(
    call: &ApiCall,
    credential: BasicCredential,
    username: String,
    error: ApiError,
) -> ApiError {
    let request = ListAccessTokensRequest { credential: Some(credential), username, page: 1, page_size: 1 };
    match call.clients.accounts().list_access_tokens(call.request_without_token(request)).await {
        Ok(_) => error,
        Err(status) => error_with_challenge(status),
    }
}
