use ferrite_proto::git::{GetRefRequest, GetRefResponse};
use tonic::Request;

use super::convert;
use crate::{
    repo::read,
    rpc::authorize,
    state::AppState,
    types::{error::GitError, name::RefName, rpc_error::RpcError},
};

/// Returns one ref. An invalid name answers `RefNotFound`, like the name of a missing ref.
pub(super) async fn get_ref(state: &AppState, request: Request<GetRefRequest>) -> Result<GetRefResponse, RpcError> {
    let (request, id) = authorize(state, request, |request| request.repository_id).await?;
    let name = RefName::parse(&request.name).map_err(|_| GitError::RefNotFound)?;
    let job = move |repo: &git2::Repository| read::reference(repo, &name);
    let found = state.pool.run(id, job).await?;
    Ok(GetRefResponse { reference: Some(convert::reference(&found)) })
}
