use ferrite_proto::id::PublicKeyId;
use ferrite_proto::repo::{GetPublicKeyRequest, GetPublicKeyResponse};
use tonic::Request;

use crate::RepoError;
use crate::access::Permit;
use crate::core::Core;

pub(super) async fn handle(
    core: &Core,
    permit: Permit,
    request: Request<GetPublicKeyRequest>,
) -> Result<GetPublicKeyResponse, RepoError> {
    let id = PublicKeyId(request.get_ref().key_id);
    let row = core.public_keys.find(permit.user()?, id).await?.ok_or(RepoError::KeyNotFound)?;
    Ok(GetPublicKeyResponse { key: Some(super::encode(row)) })
}
