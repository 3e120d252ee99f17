use ferrite_kit::auth::Caller;
use ferrite_proto::{
    git::{GetBranchRequest, GetBranchResponse},
    id::RepositoryId,
};
use tonic::Request;

use super::encode;
use crate::{app::App, error::GitError, failure::Failure, name::BranchName, read};

/// Returns one branch. What cannot be a name is the name of no branch.
pub(super) async fn get_branch(app: &App, request: Request<GetBranchRequest>) -> Result<GetBranchResponse, Failure> {
    let caller = Caller::of(&request);
    let request = request.into_inner();
    app.authorize(&caller, request.repository_id).await?;
    let name = BranchName::parse(&request.name).map_err(|_| GitError::BranchNotFound)?;
    let branch = app.pool.run(RepositoryId(request.repository_id), move |repo| read::branch(repo, &name)).await?;
    let rules = app.protection.rules(RepositoryId(request.repository_id)).await?;
    Ok(GetBranchResponse { branch: Some(encode::branch(branch, &rules)) })
}
