use ferrite_kit::auth::Caller;
use ferrite_proto::{
    git::{ListBranchesRequest, ListBranchesResponse},
    id::RepositoryId,
};
use tonic::Request;

use super::{
    encode,
    page::{parse_page, total_count},
};
use crate::{repo::read, state::AppState, types::rpc_error::RpcError};

/// Returns a page of branches.
pub(super) async fn list_branches(
    state: &AppState,
    request: Request<ListBranchesRequest>,
) -> Result<ListBranchesResponse, RpcError> {
    let caller = Caller::of(&request);
    let request = request.into_inner();
    state.authorize(&caller, request.repository_id).await?;
    let page = parse_page(request.page, request.page_size)?;
    let id = RepositoryId(request.repository_id);
    let listed = state.refs.list(id, "refs/heads/", page).await?;
    let page = state.pool.run(id, move |repo| read::branches(repo, &listed)).await?;
    let rules = state.protection.rules(id).await?;
    Ok(ListBranchesResponse {
        branches: page.branches.into_iter().map(|branch| encode::branch(branch, &rules)).collect(),
        total_count: total_count(page.total),
    })
}
