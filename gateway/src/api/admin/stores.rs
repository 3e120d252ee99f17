//! Git stores, for administrators of the site.

use ferrite_proto::operation;
use ferrite_proto::repo::{DeleteStoreRequest, ListStoresRequest, SetStoreRequest, UpdateStoreRequest};

use crate::api::access::PermissionCheck;
use crate::api::call::{Authenticated, routes};
use crate::dto::{Store, require};
use crate::http::body::JsonBody;
use crate::http::error::ApiResult;
use crate::http::fields::FieldReader;
use crate::http::json;
use crate::http::page::PageLimits;
use crate::http::path::Params;
use crate::http::query::Query;

routes! {
    "/api/v1/admin/stores" => get list as operation::LIST_STORES;
    "/api/v1/admin/stores/{name}" =>
        put set as operation::SET_STORE,
        patch update as operation::UPDATE_STORE,
        delete remove as operation::DELETE_STORE;
}

async fn list(Authenticated(call): Authenticated, query: Query) -> ApiResult {
    let page = query.page(PageLimits::EXTENSION_LIST);
    let request = call.request(ListStoresRequest { page: page.number, page_size: page.size });
    let response = call.clients.administration().list_stores(request).await?.into_inner();
    let stores = response.stores.into_iter().map(Store::new).collect::<Result<Vec<_>, _>>()?;
    Ok(json::page(stores, query.headers(page, response.total_count, &call.links)))
}

async fn set(Authenticated(call): Authenticated, path: Params, body: JsonBody) -> ApiResult {
    let check = PermissionCheck::of(operation::SET_STORE);
    let decode =
        call.decode_body(check, body, |fields| SetStoreRequest { name: path.name("name"), weight: weight(fields) });
    let request = call.request(decode.await?);
    let response = call.clients.administration().set_store(request).await?.into_inner();
    let store = Store::new(require(response.store, "store")?)?;
    Ok(if response.was_added { json::created(store) } else { json::ok(store) })
}

async fn update(Authenticated(call): Authenticated, path: Params, body: JsonBody) -> ApiResult {
    let check = PermissionCheck::of(operation::UPDATE_STORE);
    let decode =
        call.decode_body(check, body, |fields| UpdateStoreRequest { name: path.name("name"), weight: weight(fields) });
    let request = call.request(decode.await?);
    let response = call.clients.administration().update_store(request).await?.into_inner();
    Ok(json::ok(Store::new(require(response.store, "store")?)?))
}

async fn remove(Authenticated(call): Authenticated, path: Params) -> ApiResult {
    let request = call.request(DeleteStoreRequest { name: path.name("name") });
    call.clients.administration().delete_store(request).await?;
    Ok(json::no_content())
}

/// Reads a weight. One that is out of range is refused by the service, and stays so.
fn weight(fields: &mut FieldReader) -> Option<i32> {
    let weight = fields.optional_number("weight")?;
    Some(i32::try_from(weight).unwrap_or(if weight < 0 { i32::MIN } else { i32::MAX }))
}
