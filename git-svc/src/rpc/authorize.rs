//! The first step of RPCs about one repository.

use ferrite_kit::auth::Caller;
use ferrite_proto::id::RepositoryId;
use tonic::Request;

use crate::{state::AppState, types::rpc_error::RpcError};

/// Checks that the caller has a grant for the RPC on the repository whose id `repository` returns. Returns the message and the id.
///
/// # Errors
/// Those of [`AppState::authorize`].
pub(super) async fn authorize<T>(
    state: &AppState,
    request: Request<T>,
    repository: fn(&T) -> i64,
) -> Result<(T, RepositoryId), RpcError> {
    let caller = Caller::of(&request);
    let request = request.into_inner();
    let id = RepositoryId(repository(&request));
    state.authorize(&caller, id).await?;
    Ok((request, id))
}
