use ferrite_proto::repo::{ListReleaseAssetsRequest, ListReleaseAssetsResponse};
use tonic::Request;

use super::{encode, lookup};
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::ReleaseKey;

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<ListReleaseAssetsRequest>,
) -> Result<ListReleaseAssetsResponse, RepoError> {
    let request = request.into_inner();
    let repository = permit.repository(&state.repositories, request.repository).await?;
    let release = lookup::release(state, &permit, &repository, &ReleaseKey::Id(request.release_id)).await?;
    let assets = state.releases.assets([release.id]).await?;
    let assets = assets.into_iter().map(|asset| encode::asset(asset, &release)).collect();
    Ok(ListReleaseAssetsResponse { assets })
}
