use ferrite_proto::id::DeployKeyId;
use ferrite_proto::repo::{GetDeployKeyRequest, GetDeployKeyResponse};
use tonic::Request;

use super::encoded;
use crate::RepoError;
use crate::access::Permit;
use crate::core::Core;

pub(super) async fn handle(
    core: &Core,
    permit: Permit,
    request: Request<GetDeployKeyRequest>,
) -> Result<GetDeployKeyResponse, RepoError> {
    let request = request.into_inner();
    let repository = permit.repository(core, request.repository).await?;
    let found = core.deploy_keys.find(repository.id(), DeployKeyId(request.key_id)).await?;
    Ok(GetDeployKeyResponse { key: Some(encoded(found.ok_or(RepoError::KeyNotFound)?)) })
}
