//! SSH keys of users.

use ferrite_api_types::convert::MissingField;
use ferrite_api_types::links::Links;
use ferrite_proto::operation;
use ferrite_proto::repo::{
    self, CreatePublicKeyRequest, DeletePublicKeyRequest, GetPublicKeyRequest, ListPublicKeysRequest,
};
use serde::Serialize;

use crate::api::access::PermissionCheck;
use crate::api::call::{ApiCall, Authenticated, routes};
use crate::dto::{OwnPublicKey, PublicKey, require};
use crate::http::body::JsonBody;
use crate::http::error::ApiResult;
use crate::http::json;
use crate::http::page::PageLimits;
use crate::http::path::Params;
use crate::http::query::Query;

routes! {
    "/api/v1/user/keys" => get list_mine as operation::LIST_PUBLIC_KEYS, post create as operation::CREATE_PUBLIC_KEY;
    "/api/v1/user/keys/{id}" => get get as operation::GET_PUBLIC_KEY, delete remove as operation::DELETE_PUBLIC_KEY;
    "/api/v1/users/{username}/keys" => get list_of_user as operation::LIST_PUBLIC_KEYS;
}

async fn list_mine(Authenticated(call): Authenticated, query: Query) -> ApiResult {
    list(&call, &query, String::new(), OwnPublicKey::new).await
}

async fn list_of_user(Authenticated(call): Authenticated, path: Params, query: Query) -> ApiResult {
    list(&call, &query, path.name("username"), PublicKey::new).await
}

async fn list<T: Serialize + Send + 'static>(
    call: &ApiCall,
    query: &Query,
    username: String,
    show: fn(repo::PublicKey, &Links) -> Result<T, MissingField>,
) -> ApiResult {
    let page = query.page(PageLimits::WHOLE_LIST);
    let request = call.request(ListPublicKeysRequest { username, page: page.number, page_size: page.size });
    let response = call.clients.public_keys().list_public_keys(request).await?.into_inner();
    let keys = response.keys.into_iter().map(|key| show(key, &call.links)).collect::<Result<Vec<_>, _>>()?;
    Ok(json::page(keys, query.headers(page, response.total_count, &call.links)))
}

async fn get(Authenticated(call): Authenticated, path: Params) -> ApiResult {
    let request = call.request(GetPublicKeyRequest { key_id: path.id("id") });
    let response = call.clients.public_keys().get_public_key(request).await?.into_inner();
    Ok(json::ok(OwnPublicKey::new(require(response.key, "key")?, &call.links)?))
}

/// Adds a key to the caller's account, or to that of `username` for a caller that acts as an administrator.
pub(crate) async fn create(Authenticated(call): Authenticated, path: Params, body: JsonBody) -> ApiResult {
    let username = path.optional_name("username");
    let as_administrator = username.is_some();
    let check = PermissionCheck::of(operation::CREATE_PUBLIC_KEY).by_administrator(as_administrator);
    let decode = call.decode_body(check, body, |fields| CreatePublicKeyRequest {
        title: fields.required_non_empty("title"),
        key: fields.required_non_empty("key"),
        username: username.unwrap_or_default(),
        as_administrator,
    });
    let request = call.request(decode.await?);
    let response = call.clients.public_keys().create_public_key(request).await?.into_inner();
    // A key that an administrator gives is bound to no token, as its owner sees as well.
    Ok(json::created(OwnPublicKey::new(require(response.key, "key")?, &call.links)?))
}

async fn remove(Authenticated(call): Authenticated, path: Params) -> ApiResult {
    let request = call.request(DeletePublicKeyRequest { key_id: path.id("id") });
    call.clients.public_keys().delete_public_key(request).await?;
    Ok(json::no_content())
}
