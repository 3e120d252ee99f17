//! `ListPushedCommits`: the commits that an update brought to a branch, for services that act on their messages.

use ferrite_kit::auth::Caller;
use ferrite_proto::{
    git::{ListPushedCommitsRequest, ListPushedCommitsResponse, PushedCommit},
    id::RepositoryId,
};
use tonic::Request;

use super::decode;
use crate::{
    repo::read::{self, Deadline, MAX_PUSHED_COMMITS, deadline::READ_TIMEOUT},
    state::AppState,
    types::rpc_error::RpcError,
};

/// Returns the newest commits that an update brought to a branch, oldest first.
pub(super) async fn list_pushed_commits(
    state: &AppState,
    request: Request<ListPushedCommitsRequest>,
) -> Result<ListPushedCommitsResponse, RpcError> {
    Caller::of(&request).require_service()?;
    let request = request.into_inner();
    let (old, new) = (decode::object_id("old_id", &request.old_id)?, decode::object_id("new_id", &request.new_id)?);
    let limit = decode::parse_limit("limit", request.limit, MAX_PUSHED_COMMITS)?;
    let (deadline, _waiting) = Deadline::start(READ_TIMEOUT);
    let job = move |repo: &git2::Repository| read::pushed_commits(repo, old, new, limit, &deadline);
    let commits = state.pool.run(RepositoryId(request.repository_id), job).await?;
    let encode = |commit: read::PushedCommit| PushedCommit { id: commit.id.to_string(), message: commit.message };
    Ok(ListPushedCommitsResponse { commits: commits.into_iter().map(encode).collect() })
}
