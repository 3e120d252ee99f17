use ferrite_proto::git::{SyncMirrorRequest, SyncMirrorResponse};
use tonic::Request;

use crate::{rpc::authorize, state::AppState, types::rpc_error::RpcError};

/// Has a mirror synced soon.
pub(super) async fn sync_mirror(
    state: &AppState,
    request: Request<SyncMirrorRequest>,
) -> Result<SyncMirrorResponse, RpcError> {
    let (_, id) = authorize(state, request, |request| request.repository_id).await?;
    state.migrations.sync_soon(id).await?;
    Ok(SyncMirrorResponse {})
}
