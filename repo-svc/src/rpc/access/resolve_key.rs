use ferrite_kit::auth::AuthError;
use ferrite_proto::repo::{ResolveKeyRequest, ResolveKeyResponse};
use tonic::Request;

use crate::RepoError;
use crate::access::Permit;
use crate::core::Core;
use crate::store::{KeyHolder, key_holder};

pub(super) async fn handle(
    core: &Core,
    _: Permit,
    request: Request<ResolveKeyRequest>,
) -> Result<ResolveKeyResponse, RepoError> {
    match key_holder(&core.db, &request.get_ref().fingerprint).await? {
        Some(KeyHolder::User(identity)) => Ok(ResolveKeyResponse { identity: Some(identity) }),
        Some(KeyHolder::Repositories(_)) => Ok(ResolveKeyResponse { identity: None }),
        None => Err(AuthError::BadCredentials.into()),
    }
}
