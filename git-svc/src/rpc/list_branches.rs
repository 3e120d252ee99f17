use ferrite_kit::auth::Caller;
use ferrite_proto::{
    git::{ListBranchesRequest, ListBranchesResponse},
    id::RepositoryId,
};
use tonic::Request;

use super::encode;
use crate::{
    repo::{read, refs::Page},
    state::AppState,
    types::{error::GitError, rpc_error::RpcError},
};

/// Most branches in a page.
const MAX_PAGE_SIZE: i32 = 1000;

/// Returns a page of branches.
pub(super) async fn list_branches(
    state: &AppState,
    request: Request<ListBranchesRequest>,
) -> Result<ListBranchesResponse, RpcError> {
    let caller = Caller::of(&request);
    let request = request.into_inner();
    state.authorize(&caller, request.repository_id).await?;
    let page = page(&request)?;
    let id = RepositoryId(request.repository_id);
    let listed = state.refs.list(id, "refs/heads/", page).await?;
    let page = state.pool.run(id, move |repo| read::branches(repo, &listed)).await?;
    let rules = state.protection.rules(id).await?;
    Ok(ListBranchesResponse {
        branches: page.branches.into_iter().map(|branch| encode::branch(branch, &rules)).collect(),
        total_count: i64::try_from(page.total).unwrap_or(i64::MAX),
    })
}

fn page(request: &ListBranchesRequest) -> Result<Page, GitError> {
    let number = usize::try_from(request.page).ok().filter(|number| *number >= 1);
    let number = number.ok_or_else(|| GitError::invalid("page", "invalid", "must be at least 1"))?;
    if !(1..=MAX_PAGE_SIZE).contains(&request.page_size) {
        return Err(GitError::invalid("page_size", "invalid", "must be from 1 to 1000"));
    }
    Ok(Page { number, size: usize::try_from(request.page_size).unwrap_or(1) })
}
