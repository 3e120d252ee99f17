use ferrite_proto::repo::get_release_request::By;
use ferrite_proto::repo::{GetReleaseRequest, GetReleaseResponse};
use tonic::Request;

use super::{encode, lookup};
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::ReleaseKey;

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<GetReleaseRequest>,
) -> Result<GetReleaseResponse, RepoError> {
    let request = request.into_inner();
    let repository = permit.repository(&state.repositories, request.repository).await?;
    let key = match request.by {
        Some(By::ReleaseId(id)) => ReleaseKey::Id(id),
        // PostgreSQL takes no NUL, and no tag has one.
        Some(By::TagName(name)) if name.contains('\0') => return Err(RepoError::ReleaseNotFound),
        Some(By::TagName(name)) => ReleaseKey::Tag(name),
        Some(By::IsLatest(true)) => ReleaseKey::Latest,
        Some(By::IsLatest(false)) | None => return Err(RepoError::field("by", "required", "is required")),
    };
    let release = lookup::release(state, &permit, &repository, &key).await?;
    let assets = state.releases.assets([release.id]).await?;
    Ok(GetReleaseResponse { release: Some(encode::release(release, assets, permit.viewer())) })
}
