//! Git stores, for administrators of the site.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use ferrite_proto::repo::{DeleteStoreRequest, ListStoresRequest, SetStoreRequest, UpdateStoreRequest};

use super::access::PermissionCheck;
use super::operation;
use super::state::ApiState;
use crate::auth::Authenticated;
use crate::dto::{Store, require};
use crate::http::body::JsonBody;
use crate::http::error::ApiError;
use crate::http::fields::FieldReader;
use crate::http::json;
use crate::http::page::PageLimits;
use crate::http::path::Params;
use crate::http::query::Query;
use crate::http::routes::routes;

routes! { ApiState:
    "/api/v1/admin/stores" => get list as operation::LIST_STORES;
    "/api/v1/admin/stores/{name}" =>
        put set as operation::SET_STORE,
        patch update as operation::UPDATE_STORE,
        delete remove as operation::DELETE_STORE;
}

async fn list(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    query: Query,
) -> Result<Response, ApiError> {
    let page = query.page(PageLimits::STORES);
    let request = context.request(ListStoresRequest { page: page.number, page_size: page.size });
    let answer = api.clients.administration().list_stores(request).await?.into_inner();
    let stores = answer.stores.into_iter().map(Store::new).collect::<Result<Vec<_>, _>>()?;
    Ok(json::page(stores, query.headers(page, answer.total_count, &api.links)))
}

async fn set(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: Params,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let check = PermissionCheck::of(operation::SET_STORE);
    let decode = api.decode_body(&context, check, body, |fields| SetStoreRequest {
        name: path.name("name"),
        weight: weight(fields),
    });
    let request = context.request(decode.await?);
    let answer = api.clients.administration().set_store(request).await?.into_inner();
    let store = Store::new(require(answer.store, "store")?)?;
    Ok(if answer.was_added { json::created(store) } else { json::ok(store) })
}

async fn update(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: Params,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let check = PermissionCheck::of(operation::UPDATE_STORE);
    let decode = api.decode_body(&context, check, body, |fields| UpdateStoreRequest {
        name: path.name("name"),
        weight: weight(fields),
    });
    let request = context.request(decode.await?);
    let answer = api.clients.administration().update_store(request).await?.into_inner();
    Ok(json::ok(Store::new(require(answer.store, "store")?)?))
}

async fn remove(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: Params,
) -> Result<Response, ApiError> {
    let request = context.request(DeleteStoreRequest { name: path.name("name") });
    api.clients.administration().delete_store(request).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Reads a weight. One that is out of range is refused by the service, and stays so.
fn weight(fields: &mut FieldReader) -> Option<i32> {
    let weight = fields.optional_number("weight")?;
    Some(i32::try_from(weight).unwrap_or(if weight < 0 { i32::MIN } else { i32::MAX }))
}
