use ferrite_proto::git::{UpdateMirrorRequest, UpdateMirrorResponse};
use tonic::Request;

use crate::{
    rpc::{authorize, finish},
    state::AppState,
    types::rpc_error::RpcError,
};

/// Changes the schedule of a mirror.
pub(super) async fn update_mirror(
    state: &AppState,
    request: Request<UpdateMirrorRequest>,
) -> Result<UpdateMirrorResponse, RpcError> {
    let (request, id) = authorize(state, request, |request| request.repository_id).await?;
    finish(state, async move |state| state.migrations.set_interval(id, request.interval_seconds).await).await?;
    Ok(UpdateMirrorResponse {})
}
