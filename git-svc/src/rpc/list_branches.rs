use ferrite_proto::git::{ListBranchesRequest, ListBranchesResponse};
use tonic::Request;

use super::{authorize, decode, encode};
use crate::{repo::read, state::AppState, types::rpc_error::RpcError};

/// Returns a page of branches.
pub(super) async fn list_branches(
    state: &AppState,
    request: Request<ListBranchesRequest>,
) -> Result<ListBranchesResponse, RpcError> {
    let (request, id) = authorize(state, request, |request| request.repository_id).await?;
    let page = decode::parse_page(request.page, request.page_size)?;
    let listed = state.refs.list(id, "refs/heads/", page).await?;
    let branches = state.pool.run(id, move |repo| read::branches(repo, &listed.entries)).await?;
    let rules = state.protection.rules(id).await?;
    Ok(ListBranchesResponse {
        branches: branches.into_iter().map(|branch| encode::branch(branch, &rules)).collect(),
        total_count: encode::total_count(listed.total),
    })
}
