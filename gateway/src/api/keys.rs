use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use ferrite_proto::repo::{CreatePublicKeyRequest, DeletePublicKeyRequest, GetPublicKeyRequest, ListPublicKeysRequest};

use super::access::Attempt;
use super::operation;
use crate::auth::{Call, Signed};
use crate::dto::{PublicKey, present};
use crate::http::body::Payload;
use crate::http::error::ApiError;
use crate::http::json;
use crate::http::page::{Query, WHOLE};
use crate::http::path::Params;
use crate::http::routes::routes;
use crate::state::Gateway;

routes! { Gateway:
    "/api/v1/user/keys" => get list_mine as operation::LIST_PUBLIC_KEYS, post create as operation::CREATE_PUBLIC_KEY;
    "/api/v1/user/keys/{id}" => get get as operation::GET_PUBLIC_KEY, delete remove as operation::DELETE_PUBLIC_KEY;
    "/api/v1/users/{username}/keys" => get list_of_user as operation::LIST_PUBLIC_KEYS;
}

async fn list_mine(State(gateway): State<Gateway>, Signed(call): Signed, query: Query) -> Result<Response, ApiError> {
    list(&gateway, &call, &query, String::new()).await
}

async fn list_of_user(
    State(gateway): State<Gateway>,
    Signed(call): Signed,
    path: Params,
    query: Query,
) -> Result<Response, ApiError> {
    list(&gateway, &call, &query, path.name("username")).await
}

async fn list(gateway: &Gateway, call: &Call, query: &Query, username: String) -> Result<Response, ApiError> {
    let page = query.page(WHOLE);
    let request = call.request(ListPublicKeysRequest { username, page: page.number, page_size: page.size });
    let answer = gateway.clients.public_keys().list_public_keys(request).await?.into_inner();
    let keys = answer.keys.into_iter().map(|key| PublicKey::new(key, &gateway.links));
    let keys = keys.collect::<Result<Vec<_>, _>>()?;
    Ok(json::page(keys, query.headers(page, answer.total_count, &gateway.links)))
}

async fn get(State(gateway): State<Gateway>, Signed(call): Signed, path: Params) -> Result<Response, ApiError> {
    let request = call.request(GetPublicKeyRequest { key_id: path.id("id") });
    let answer = gateway.clients.public_keys().get_public_key(request).await?.into_inner();
    Ok(json::ok(PublicKey::new(present(answer.key, "key")?, &gateway.links)?))
}

async fn create(State(gateway): State<Gateway>, Signed(call): Signed, payload: Payload) -> Result<Response, ApiError> {
    add(&gateway, &call, payload, None).await
}

/// Adds a key to the caller's account, or as an administrator to that of `username`.
pub(super) async fn add(
    gateway: &Gateway,
    call: &Call,
    payload: Payload,
    username: Option<String>,
) -> Result<Response, ApiError> {
    let as_administrator = username.is_some();
    let attempt = Attempt::of(operation::CREATE_PUBLIC_KEY).by_administrator(as_administrator);
    let decode = gateway.decoded(call, attempt, payload, |fields| CreatePublicKeyRequest {
        title: fields.required("title"),
        key: fields.required("key"),
        username: username.unwrap_or_default(),
        as_administrator,
    });
    let request = call.request(decode.await?);
    let answer = gateway.clients.public_keys().create_public_key(request).await?.into_inner();
    Ok(json::created(PublicKey::new(present(answer.key, "key")?, &gateway.links)?))
}

async fn remove(State(gateway): State<Gateway>, Signed(call): Signed, path: Params) -> Result<Response, ApiError> {
    let request = call.request(DeletePublicKeyRequest { key_id: path.id("id") });
    gateway.clients.public_keys().delete_public_key(request).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
