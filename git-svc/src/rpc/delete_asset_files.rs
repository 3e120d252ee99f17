use ferrite_kit::auth::Caller;
use ferrite_proto::{
    git::{DeleteAssetFilesRequest, DeleteAssetFilesResponse},
    id::RepositoryId,
};
use tonic::Request;

use crate::{
    disk::assets::{AssetFileId, delete_assets},
    state::AppState,
    types::{error::GitError, rpc_error::RpcError},
};

/// Most files of one request.
const MAX_FILES: usize = 1_000;

/// Removes files of releases.
pub(super) async fn delete_asset_files(
    state: &AppState,
    request: Request<DeleteAssetFilesRequest>,
) -> Result<DeleteAssetFilesResponse, RpcError> {
    Caller::of(&request).require_service()?;
    let request = request.into_inner();
    let invalid = || GitError::invalid("file_ids", "invalid", "must be at most 1,000 names of files");
    let ids = request.file_ids.iter().map(|id| AssetFileId::parse(id.as_bytes()));
    let ids: Vec<_> = ids.collect::<Option<_>>().ok_or_else(invalid)?;
    if ids.len() > MAX_FILES {
        return Err(invalid().into());
    }
    let id = RepositoryId(request.repository_id);
    state.pool.run_blocking(move |store| delete_assets(store, id, &ids)).await?;
    Ok(DeleteAssetFilesResponse {})
}
