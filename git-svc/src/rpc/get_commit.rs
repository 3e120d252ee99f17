use ferrite_kit::auth::Caller;
use ferrite_proto::{
    git::{GetCommitRequest, GetCommitResponse},
    id::RepositoryId,
};
use tonic::Request;

use super::encode;
use crate::{
    repo::{read, revision::Revision},
    state::AppState,
    types::rpc_error::RpcError,
};

/// Returns the commit that a revision names.
pub(super) async fn get_commit(
    state: &AppState,
    request: Request<GetCommitRequest>,
) -> Result<GetCommitResponse, RpcError> {
    let caller = Caller::of(&request);
    let request = request.into_inner();
    state.authorize(&caller, request.repository_id).await?;
    let revision = Revision::parse(&request.revision)?;
    let job = move |repo: &git2::Repository| read::commit(repo, &revision);
    let (_, commit) = state.pool.run(RepositoryId(request.repository_id), job).await?;
    Ok(GetCommitResponse { commit: Some(encode::commit(commit)) })
}
