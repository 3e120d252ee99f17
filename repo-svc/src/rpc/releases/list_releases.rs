use std::collections::HashMap;

use ferrite_proto::repo::{ListReleasesRequest, ListReleasesResponse};
use tonic::Request;

use super::{encode, lookup};
use crate::error::RepoError;
use crate::rpc::lists;
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::Asset;

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<ListReleasesRequest>,
) -> Result<ListReleasesResponse, RepoError> {
    let request = request.into_inner();
    let repository = permit.repository(&state.repositories, request.repository).await?;
    let page = lists::page(request.page, request.page_size);
    let with_drafts = lookup::sees_drafts(&permit, &repository);
    let (rows, total_count) = state.releases.list(repository.id(), with_drafts, page).await?;
    let mut assets: HashMap<i64, Vec<Asset>> = HashMap::with_capacity(rows.len());
    for asset in state.releases.assets(rows.iter().map(|row| row.id)).await? {
        assets.entry(asset.release_id).or_default().push(asset);
    }
    let encode = |row: crate::store::Release| {
        let assets = assets.remove(&row.id).unwrap_or_default();
        encode::release(row, assets, permit.viewer())
    };
    Ok(ListReleasesResponse { releases: rows.into_iter().map(encode).collect(), total_count })
}
