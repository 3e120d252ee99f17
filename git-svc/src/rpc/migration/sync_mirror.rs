use ferrite_kit::auth::Caller;
use ferrite_proto::{
    git::{SyncMirrorRequest, SyncMirrorResponse},
    id::RepositoryId,
};
use tonic::Request;

use crate::{state::AppState, types::rpc_error::RpcError};

/// Has a mirror synced soon.
pub(super) async fn sync_mirror(
    state: &AppState,
    request: Request<SyncMirrorRequest>,
) -> Result<SyncMirrorResponse, RpcError> {
    let id = request.get_ref().repository_id;
    state.authorize(&Caller::of(&request), id).await?;
    state.migrations.sync_soon(RepositoryId(id)).await?;
    Ok(SyncMirrorResponse {})
}
