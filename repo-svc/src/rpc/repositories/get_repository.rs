use ferrite_proto::repo::{GetRepositoryRequest, GetRepositoryResponse};
use tonic::Request;

use super::super::encode;
use crate::RepoError;
use crate::access::Permit;
use crate::core::Core;

pub(super) async fn handle(
    core: &Core,
    permit: Permit,
    request: Request<GetRepositoryRequest>,
) -> Result<GetRepositoryResponse, RepoError> {
    let repository = permit.repository(core, request.into_inner().repository).await?;
    Ok(GetRepositoryResponse { repository: Some(encode::repository(repository, permit.viewer())) })
}
