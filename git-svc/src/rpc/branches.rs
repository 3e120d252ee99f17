use ferrite_proto::{
    git::{
        GetBranchRequest, GetBranchResponse, ListBranchesRequest, ListBranchesResponse, SetDefaultBranchRequest,
        SetDefaultBranchResponse,
    },
    id::RepositoryId,
};
use ferrite_rpc::auth::Caller;
use git_store::{
    repo::read,
    types::{error::GitError, name::BranchName},
};
use tonic::Request;

use super::{authorize, decode, encode, finish};
use crate::{rpc_error::RpcError, state::AppState};

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

/// Returns one branch. An invalid name yields `BranchNotFound`, like a missing branch.
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

/// Points HEAD to a branch, or only checks that this is possible.
pub(super) async fn set_default_branch(
    state: &AppState,
    request: Request<SetDefaultBranchRequest>,
) -> Result<SetDefaultBranchResponse, RpcError> {
    Caller::of(&request).require_service()?;
    let request = request.into_inner();
    let branch = BranchName::parse(request.default_branch.as_bytes()).map_err(|error| error.of("default_branch"))?;
    let id = RepositoryId(request.repository_id);
    let work = async move |state: AppState| {
        let guard = state.updater.lock(id).await?;
        if request.check_only {
            state.updater.is_new_default_branch(&guard, &branch).await?;
            return Ok(None);
        }
        state.updater.set_default_branch(&guard, branch).await
    };
    let Some(change) = finish(state, work).await? else { return Ok(SetDefaultBranchResponse::default()) };
    Ok(SetDefaultBranchResponse { number: change.number, size_bytes: change.size_bytes, is_empty: change.is_empty })
}
