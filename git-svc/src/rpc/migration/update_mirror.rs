use ferrite_kit::auth::Caller;
use ferrite_proto::{
    git::{UpdateMirrorRequest, UpdateMirrorResponse},
    id::RepositoryId,
};
use tonic::Request;

use crate::{rpc::finish::finish, state::AppState, types::rpc_error::RpcError};

/// Changes the schedule of a mirror.
pub(super) async fn update_mirror(
    state: &AppState,
    request: Request<UpdateMirrorRequest>,
) -> Result<UpdateMirrorResponse, RpcError> {
    let id = request.get_ref().repository_id;
    state.authorize(&Caller::of(&request), id).await?;
    let interval_seconds = request.into_inner().interval_seconds;
    let own = state.clone();
    finish(state, async move { own.migrations.set_interval(RepositoryId(id), interval_seconds).await }).await?;
    Ok(UpdateMirrorResponse {})
}
