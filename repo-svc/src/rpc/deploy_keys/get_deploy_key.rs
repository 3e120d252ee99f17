use ferrite_proto::id::DeployKeyId;
use ferrite_proto::repo::{GetDeployKeyRequest, GetDeployKeyResponse};
use tonic::Request;

use super::super::encode;
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<GetDeployKeyRequest>,
) -> Result<GetDeployKeyResponse, RepoError> {
    let request = request.into_inner();
    let repository = permit.repository(&state.repositories, request.repository).await?;
    let found = state.deploy_keys.find(repository.id(), DeployKeyId(request.key_id)).await?;
    Ok(GetDeployKeyResponse { key: Some(encode::deploy_key(found.ok_or(RepoError::KeyNotFound)?)) })
}
