//! `ListStores`: the git stores with their weights, and how this process has last seen them.

use ferrite_kit::page::Page;
use ferrite_kit::timestamp;
use ferrite_proto::repo::{ListStoresRequest, ListStoresResponse, Store};
use tonic::Request;

use crate::error::RepoError;
use crate::placement::GitStores;
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::GitStore;

const MAX_PAGE_SIZE: i32 = 100;

pub(super) async fn handle(
    state: &AppState,
    _: Permit,
    request: Request<ListStoresRequest>,
) -> Result<ListStoresResponse, RepoError> {
    let request = request.into_inner();
    let page = Page::nearest(request.page, request.page_size, MAX_PAGE_SIZE);
    let (rows, total_count) = state.stores.table().list(page).await?;
    let stores = rows.into_iter().map(|row| encode(row, &state.stores)).collect();
    Ok(ListStoresResponse { stores, total_count })
}

/// Encodes a store with what is known about it.
pub(super) fn encode(row: GitStore, stores: &GitStores) -> Store {
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
