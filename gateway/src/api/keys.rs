//! SSH keys of users.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use ferrite_proto::repo::{
    self, CreatePublicKeyRequest, DeletePublicKeyRequest, GetPublicKeyRequest, ListPublicKeysRequest,
};
use ferrite_rest::convert::MissingField;
use ferrite_rest::links::Links;
use serde::Serialize;

use super::access::PermissionCheck;
use super::named_user::NamedUser;
use super::operation;
use super::state::ApiState;
use crate::auth::{Authenticated, RequestContext};
use crate::dto::{OwnPublicKey, PublicKey, require};
use crate::http::body::JsonBody;
use crate::http::error::ApiError;
use crate::http::json;
use crate::http::page::PageLimits;
use crate::http::path::Params;
use crate::http::query::Query;
use crate::http::routes::routes;

routes! { ApiState:
    "/api/v1/user/keys" => get list_mine as operation::LIST_PUBLIC_KEYS, post create as operation::CREATE_PUBLIC_KEY;
    "/api/v1/user/keys/{id}" => get get as operation::GET_PUBLIC_KEY, delete remove as operation::DELETE_PUBLIC_KEY;
    "/api/v1/users/{username}/keys" => get list_of_user as operation::LIST_PUBLIC_KEYS;
}

async fn list_mine(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    query: Query,
) -> Result<Response, ApiError> {
    list(&api, &context, &query, String::new(), OwnPublicKey::new).await
}

async fn list_of_user(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: Params,
    query: Query,
) -> Result<Response, ApiError> {
    list(&api, &context, &query, path.name("username"), PublicKey::new).await
}

async fn list<T: Serialize + Send + 'static>(
    api: &ApiState,
    context: &RequestContext,
    query: &Query,
    username: String,
    show: fn(repo::PublicKey, &Links) -> Result<T, MissingField>,
) -> Result<Response, ApiError> {
    let page = query.page(PageLimits::WHOLE_LIST);
    let request = context.request(ListPublicKeysRequest { username, page: page.number, page_size: page.size });
    let answer = api.clients.public_keys().list_public_keys(request).await?.into_inner();
    let keys = answer.keys.into_iter().map(|key| show(key, &api.links)).collect::<Result<Vec<_>, _>>()?;
    Ok(json::page(keys, query.headers(page, answer.total_count, &api.links)))
}

async fn get(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: Params,
) -> Result<Response, ApiError> {
    let request = context.request(GetPublicKeyRequest { key_id: path.id("id") });
    let answer = api.clients.public_keys().get_public_key(request).await?.into_inner();
    Ok(json::ok(OwnPublicKey::new(require(answer.key, "key")?, &api.links)?))
}

/// Adds a key to the caller's account, or to that of `username` for a caller that acts as an administrator.
pub(super) async fn create(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    NamedUser(username): NamedUser,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let as_administrator = username.is_some();
    let check = PermissionCheck::of(operation::CREATE_PUBLIC_KEY).by_administrator(as_administrator);
    let decode = api.decode_body(&context, check, body, |fields| CreatePublicKeyRequest {
        title: fields.required_non_empty("title"),
        key: fields.required_non_empty("key"),
        username: username.unwrap_or_default(),
        as_administrator,
    });
    let request = context.request(decode.await?);
    let answer = api.clients.public_keys().create_public_key(request).await?.into_inner();
    // A key that an administrator gives is bound to no token, as its owner sees as well.
    Ok(json::created(OwnPublicKey::new(require(answer.key, "key")?, &api.links)?))
}

async fn remove(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: Params,
) -> Result<Response, ApiError> {
    let request = context.request(DeletePublicKeyRequest { key_id: path.id("id") });
    api.clients.public_keys().delete_public_key(request).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
