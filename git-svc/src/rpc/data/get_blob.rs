use ferrite_kit::auth::Caller;
use ferrite_proto::{
    git::{GetBlobRequest, GetBlobResponse},
    id::RepositoryId,
};
use tonic::Request;

use crate::{repo::read, state::AppState, types::rpc_error::RpcError};

/// Returns the bytes of a blob.
pub(super) async fn get_blob(state: &AppState, request: Request<GetBlobRequest>) -> Result<GetBlobResponse, RpcError> {
    let caller = Caller::of(&request);
    let request = request.into_inner();
    state.authorize(&caller, request.repository_id).await?;
    let id = request.blob_id;
    let found = state.pool.run(RepositoryId(request.repository_id), move |repo| read::blob(repo, &id)).await?;
    let (id, content) = found;
    Ok(GetBlobResponse { blob_id: id.to_string(), content: content.into() })
}
