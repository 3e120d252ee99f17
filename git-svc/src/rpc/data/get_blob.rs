use ferrite_proto::git::{GetBlobRequest, GetBlobResponse};
use tonic::Request;

use crate::{repo::read, rpc::authorize, state::AppState, types::rpc_error::RpcError};

/// Returns the bytes of a blob.
pub(super) async fn get_blob(state: &AppState, request: Request<GetBlobRequest>) -> Result<GetBlobResponse, RpcError> {
    let (request, id) = authorize(state, request, |request| request.repository_id).await?;
    let (id, content) = state.pool.run(id, move |repo| read::blob(repo, &request.blob_id)).await?;
    Ok(GetBlobResponse { blob_id: id.to_string(), content: content.into() })
}
