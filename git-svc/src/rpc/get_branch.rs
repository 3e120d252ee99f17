use ferrite_proto::git::{GetBranchRequest, GetBranchResponse};
use tonic::Request;

use super::{authorize, encode};
use crate::{
    repo::read,
    state::AppState,
    types::{error::GitError, name::BranchName, rpc_error::RpcError},
};

/// Returns one branch. An invalid name answers `BranchNotFound`, like the name of a missing branch.
pub(super) async fn get_branch(
    state: &AppState,
    request: Request<GetBranchRequest>,
) -> Result<GetBranchResponse, RpcError> {
    let (request, id) = authorize(state, request, |request| request.repository_id).await?;
    let name = BranchName::parse(&request.name).map_err(|_| GitError::BranchNotFound)?;
    let branch = state.pool.run(id, move |repo| read::branch(repo, &name)).await?;
    let rules = state.protection.rules(id).await?;
    Ok(GetBranchResponse { branch: Some(encode::branch(branch, &rules)) })
}
