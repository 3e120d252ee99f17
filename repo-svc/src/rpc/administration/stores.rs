use ferrite_core::net::StoreName;
use ferrite_core::page::Page;
use ferrite_core::timestamp;
use ferrite_db::idempotency::{IdempotencyKey, once};
use ferrite_proto::repo::{
    DeleteStoreRequest, DeleteStoreResponse, ListStoresRequest, ListStoresResponse, SetStoreRequest, SetStoreResponse,
    Store, UpdateStoreRequest, UpdateStoreResponse,
};
use tonic::Request;

use crate::error::RepoError;
use crate::model::{Violations, check_store_weight, parse_store_name};
use crate::placement::GitStores;
use crate::rpc::authorized::Authorized;
use crate::rpc::change;
use crate::state::AppState;
use crate::store::{Action, GitStore, Target};

const MAX_PAGE_SIZE: i32 = 100;

/// Lists the git stores with their weights and their state as this process last saw it.
pub(super) async fn list_stores(
    state: &AppState,
    _: Authorized,
    request: Request<ListStoresRequest>,
) -> Result<ListStoresResponse, RepoError> {
    let request = request.into_inner();
    let page = Page::nearest(request.page, request.page_size, MAX_PAGE_SIZE);
    let (rows, total_count) = state.stores.table().list(page).await?;
    let stores = rows.into_iter().map(|row| encode(row, &state.stores)).collect();
    Ok(ListStoresResponse { stores, total_count })
}

pub(super) async fn set_store(
    state: &AppState,
    authorized: Authorized,
    request: Request<SetStoreRequest>,
) -> Result<SetStoreResponse, RepoError> {
    let key = IdempotencyKey::of(&request, authorized.user()?.0, "SetStore")?;
    let response = once(&state.db, key.as_ref(), set(state, request.get_ref(), &authorized, key.as_ref())).await?;
    state.stores.ask_soon();
    Ok(response)
}

fn check(request: &SetStoreRequest) -> Result<(StoreName, Option<i32>), RepoError> {
    let mut violations = Violations::default();
    let name = violations.take(parse_store_name(&request.name, "name"));
    let weight = violations.take(request.weight.map(|weight| check_store_weight(weight, "weight")).transpose());
    name.zip(weight).ok_or_else(|| violations.into_error())
}

async fn set(
    state: &AppState,
    request: &SetStoreRequest,
    authorized: &Authorized,
    key: Option<&IdempotencyKey>,
) -> Result<SetStoreResponse, RepoError> {
    let (name, weight) = check(request)?;
    let (table, now) = (state.stores.table(), state.clock.now_us());
    let mut tx = state.db.begin().await?;
    let change = table.set(&mut tx, &name, weight, now).await?;
    if let Some((action, weight)) = change {
        let details = [("weight", weight.to_string())];
        change::record(&mut tx, authorized, action, Target::git_store(&name), &details, now).await?;
    }
    let row = table.find_in(&mut tx, &name).await?.ok_or(RepoError::Interrupted)?;
    let was_added = matches!(change, Some((Action::StoreAdd, _)));
    let response = SetStoreResponse { store: Some(encode(row, &state.stores)), was_added };
    change::commit(tx, key, response, now).await
}

pub(super) async fn update_store(
    state: &AppState,
    authorized: Authorized,
    request: Request<UpdateStoreRequest>,
) -> Result<UpdateStoreResponse, RepoError> {
    let key = IdempotencyKey::of(&request, authorized.user()?.0, "UpdateStore")?;
    once(&state.db, key.as_ref(), update(state, request.get_ref(), &authorized, key.as_ref())).await
}

async fn update(
    state: &AppState,
    request: &UpdateStoreRequest,
    authorized: &Authorized,
    key: Option<&IdempotencyKey>,
) -> Result<UpdateStoreResponse, RepoError> {
    // No store has an invalid name.
    let name = parse_store_name(&request.name, "name").map_err(|_| RepoError::StoreNotFound)?;
    let (table, now) = (state.stores.table(), state.clock.now_us());
    let mut tx = state.db.begin().await?;
    let before = table.lock(&mut tx, &name).await?.ok_or(RepoError::StoreNotFound)?;
    if let Some(weight) = request.weight {
        let weight = check_store_weight(weight, "weight")?;
        if i64::from(weight) != before {
            table.set_weight(&mut tx, &name, weight).await?;
            let details = [("weight", weight.to_string())];
            change::record(&mut tx, authorized, Action::StoreUpdate, Target::git_store(&name), &details, now).await?;
        }
    }
    let row = table.find_in(&mut tx, &name).await?.ok_or(RepoError::Interrupted)?;
    change::commit(tx, key, UpdateStoreResponse { store: Some(encode(row, &state.stores)) }, now).await
}

pub(super) async fn delete_store(
    state: &AppState,
    authorized: Authorized,
    request: Request<DeleteStoreRequest>,
) -> Result<DeleteStoreResponse, RepoError> {
    let key = IdempotencyKey::of(&request, authorized.user()?.0, "DeleteStore")?;
    let response = once(&state.db, key.as_ref(), delete(state, request.get_ref(), &authorized, key.as_ref())).await?;
    state.stores.ask_soon();
    Ok(response)
}

async fn delete(
    state: &AppState,
    request: &DeleteStoreRequest,
    authorized: &Authorized,
    key: Option<&IdempotencyKey>,
) -> Result<DeleteStoreResponse, RepoError> {
    // No store has an invalid name.
    let name = parse_store_name(&request.name, "name").map_err(|_| RepoError::StoreNotFound)?;
    let now = state.clock.now_us();
    let mut tx = state.db.begin().await?;
    state.stores.table().delete(&mut tx, &name).await?;
    change::record(&mut tx, authorized, Action::StoreRemove, Target::git_store(&name), &[], now).await?;
    change::commit(tx, key, DeleteStoreResponse {}, now).await
}

fn encode(row: GitStore, stores: &GitStores) -> Store {
    let status = stores.status(&row.name).unwrap_or_default();
    let bytes = |bytes: u64| (status.seen_us > 0).then(|| i64::try_from(bytes).unwrap_or(i64::MAX));
    Store {
        weight: i32::try_from(row.weight).unwrap_or(i32::MAX),
        repository_count: row.repository_count,
        is_reachable: status.is_reachable,
        free_bytes: bytes(status.free_bytes),
        total_bytes: bytes(status.total_bytes),
        seen_at: (status.seen_us > 0).then(|| timestamp(status.seen_us)),
        created_at: Some(timestamp(row.created_us)),
        name: row.name,
    }
}
