use ferrite_api_types::convert::{MissingField, require};
use ferrite_api_types::schema::{Schema, Schemas};
use ferrite_proto::operation;
use ferrite_proto::repo::{self, DeleteStoreRequest, ListStoresRequest, SetStoreRequest, UpdateStoreRequest};
use serde::Serialize;
use serde_json::{Value, json};

use crate::api::access::PermissionCheck;
use crate::api::call::{Authenticated, operations};
use crate::http::error::ApiResult;
use crate::http::page::ExtensionList;
use crate::http::path::Params;
use crate::http::request::{Integer, Kind, Mistakes, Optional, RequestBody, Time, fields};
use crate::http::response::{Created, Either, Json, List, NoContent};

operations! {
    "/api/v1/admin/stores" => get list as operation::LIST_STORES;
    "/api/v1/admin/stores/{name}" =>
        put set as operation::SET_STORE,
        patch update as operation::UPDATE_STORE,
        delete remove as operation::DELETE_STORE;
}

/// A weight. The service rejects values out of range.
enum Weight {}

impl Kind for Weight {
    type Value = i32;

    fn read(name: &str, value: Value, mistakes: &mut Mistakes) -> Option<i32> {
        let weight = <Integer as Kind>::read(name, value, mistakes)?;
        Some(i32::try_from(weight).unwrap_or(if weight < 0 { i32::MIN } else { i32::MAX }))
    }

    fn schema(_: &mut Schemas) -> Schema {
        json!({"type": "integer", "format": "int32", "minimum": 0, "maximum": 10_000})
    }
}

fields! {
    /// A git store to add or change.
    struct NewStore {
        /// The share of new repositories relative to other stores; 0 receives none. The default is
        /// the current weight, or 100 for a new store.
        weight: Optional<Weight> = 100,
    }
}

fields! {
    /// Changes of a git store.
    struct ChangedStore {
        /// The share of new repositories relative to other stores; 0 receives none.
        weight: Optional<Weight> = 0,
    }
}

ferrite_api_types::shape! {
    /// A git store.
    #[derive(Clone, Debug, Serialize)]
    struct Store {
        name: String,
        /// The share of new repositories relative to other stores.
        weight: i32,
        /// The number of repositories placed on the store.
        repositories: i64,
        reachable: bool,
        /// The free disk space. Null, like `total_bytes` and `last_seen_at`, if the store has not
        /// been seen yet.
        free_bytes: Option<i64>,
        total_bytes: Option<i64>,
        last_seen_at: Option<Time>,
        created_at: Time,
    }
}

impl Store {
    fn new(store: repo::Store) -> Result<Self, MissingField> {
        Ok(Self {
            name: store.name,
            weight: store.weight,
            repositories: store.repository_count,
            reachable: store.is_reachable,
            free_bytes: store.free_bytes,
            total_bytes: store.total_bytes,
            last_seen_at: Time::optional(store.seen_at, "seen_at")?,
            created_at: Time::new(store.created_at, "created_at")?,
        })
    }
}

async fn list(Authenticated(call): Authenticated, query: ExtensionList) -> ApiResult<List<Store>> {
    let request = call.request(ListStoresRequest { page: query.page.number, page_size: query.page.size });
    let response = call.clients.administration().list_stores(request).await?.into_inner();
    let stores = response.stores.into_iter().map(Store::new).collect::<Result<Vec<_>, _>>()?;
    Ok(query.list(stores, response.total_count, &call.links))
}

async fn set(
    Authenticated(call): Authenticated,
    path: Params,
    body: RequestBody<NewStore>,
) -> ApiResult<Either<Created<Store>, Json<Store>>> {
    let NewStore { weight } = call.checked_body(PermissionCheck::of(operation::SET_STORE), body).await?;
    let request = call.request(SetStoreRequest { name: path.name("name"), weight });
    let response = call.clients.administration().set_store(request).await?.into_inner();
    let store = Store::new(require(response.store, "store")?)?;
    if !response.was_added {
        return Ok(Either::Second(Json(store)));
    }
    // There is no URL to read a single store.
    Ok(Either::First(Created::at(call.links.api("/admin/stores"), store)))
}

async fn update(
    Authenticated(call): Authenticated,
    path: Params,
    body: RequestBody<ChangedStore>,
) -> ApiResult<Json<Store>> {
    let ChangedStore { weight } = call.checked_body(PermissionCheck::of(operation::UPDATE_STORE), body).await?;
    let request = call.request(UpdateStoreRequest { name: path.name("name"), weight });
    let response = call.clients.administration().update_store(request).await?.into_inner();
    Ok(Json(Store::new(require(response.store, "store")?)?))
}

async fn remove(Authenticated(call): Authenticated, path: Params) -> ApiResult<NoContent> {
    let request = call.request(DeleteStoreRequest { name: path.name("name") });
    call.clients.administration().delete_store(request).await?;
    Ok(NoContent)
}
