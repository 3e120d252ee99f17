use ferrite_proto::id::PublicKeyId;
use ferrite_proto::repo::{GetPublicKeyRequest, GetPublicKeyResponse};
use tonic::Request;

use super::super::encode;
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<GetPublicKeyRequest>,
) -> Result<GetPublicKeyResponse, RepoError> {
    let id = PublicKeyId(request.get_ref().key_id);
    let row = state.public_keys.find(permit.user()?, id).await?.ok_or(RepoError::KeyNotFound)?;
    Ok(GetPublicKeyResponse { key: Some(encode::public_key(row)) })
}
