use ferrite_proto::repo::{GetRepositoryRequest, GetRepositoryResponse};
use tonic::Request;

use super::super::parents;
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<GetRepositoryRequest>,
) -> Result<GetRepositoryResponse, RepoError> {
    let repository = permit.repository(&state.repositories, request.into_inner().repository).await?;
    let repository = parents::encode_one(&state.repositories, repository, permit.viewer()).await?;
    Ok(GetRepositoryResponse { repository: Some(repository) })
}
