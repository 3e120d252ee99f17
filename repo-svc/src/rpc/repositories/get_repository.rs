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
    let repository = permit.repository_with_parent(&state.repositories, request.into_inner().repository).await?;
    Ok(GetRepositoryResponse { repository: Some(parents::encode_one(repository, permit.viewer())) })
}
