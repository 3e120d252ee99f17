use ferrite_proto::git::{GetCommitRequest, GetCommitResponse};
use tonic::Request;

use super::{authorize, encode};
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
    let (request, id) = authorize(state, request, |request| request.repository_id).await?;
    let revision = Revision::parse(&request.revision)?;
    let job = move |repo: &git2::Repository| read::commit(repo, &revision);
    let commit = state.pool.run(id, job).await?;
    Ok(GetCommitResponse { commit: Some(encode::commit(commit)) })
}
