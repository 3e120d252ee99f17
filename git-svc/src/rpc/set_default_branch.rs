use ferrite_kit::auth::Caller;
use ferrite_proto::{
    git::{SetDefaultBranchRequest, SetDefaultBranchResponse},
    id::RepositoryId,
};
use tonic::Request;

use super::finish;
use crate::{
    state::AppState,
    types::{name::BranchName, rpc_error::RpcError},
};

/// Points HEAD to a branch.
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
        state.updater.set_default_branch(&guard, branch).await
    };
    let Some(change) = finish(state, work).await? else { return Ok(SetDefaultBranchResponse::default()) };
    Ok(SetDefaultBranchResponse { number: change.number, size_bytes: change.size_bytes, is_empty: change.is_empty })
}
