use ferrite_kit::auth::Caller;
use ferrite_proto::git::{GetStoreStatusRequest, GetStoreStatusResponse};
use tonic::Request;

use crate::{state::AppState, types::rpc_error::RpcError};

/// Returns the name of the store, the room on its disk, and the number of its repositories.
pub(super) async fn get_store_status(
    state: &AppState,
    request: Request<GetStoreStatusRequest>,
) -> Result<GetStoreStatusResponse, RpcError> {
    Caller::of(&request).require_service()?;
    let space = state.disk_space.measure(&state.store).await?;
    let name = state.store.name();
    Ok(GetStoreStatusResponse {
        name: name.to_owned(),
        free_bytes: i64::try_from(space.free_bytes).unwrap_or(i64::MAX),
        total_bytes: i64::try_from(space.total_bytes).unwrap_or(i64::MAX),
        repository_count: state.repositories.count(name).await?,
        is_writable: space.is_writable,
    })
}
