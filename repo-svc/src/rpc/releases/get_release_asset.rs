use ferrite_proto::repo::{GetReleaseAssetRequest, GetReleaseAssetResponse};
use tonic::Request;

use super::{encode, lookup};
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::{AssetKey, ReleaseKey};

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<GetReleaseAssetRequest>,
) -> Result<GetReleaseAssetResponse, RepoError> {
    let request = request.into_inner();
    let repository = permit.repository(&state.repositories, request.repository).await?;
    // PostgreSQL takes no NUL, and no name has one.
    if request.tag_name.contains('\0') || request.name.contains('\0') {
        return Err(RepoError::ReleaseNotFound);
    }
    let (release, asset) = if request.tag_name.is_empty() {
        (ReleaseKey::Id(request.release_id), AssetKey::Id(request.asset_id))
    } else {
        (ReleaseKey::Tag(request.tag_name), AssetKey::Name(request.name))
    };
    let release = lookup::release(state, &permit, &repository, &release).await?;
    let asset = state.releases.find_asset(&release, &asset).await?.ok_or(RepoError::AssetNotFound)?;
    Ok(GetReleaseAssetResponse { asset: Some(encode::asset(asset, &release)) })
}
