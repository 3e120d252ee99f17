use ferrite_kit::auth::AuthError;
use ferrite_proto::repo::{ResolveKeyRequest, ResolveKeyResponse};
use tonic::Request;

use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::{KeyHolder, key_holder};

pub(super) async fn handle(
    state: &AppState,
    _: Permit,
    request: Request<ResolveKeyRequest>,
) -> Result<ResolveKeyResponse, RepoError> {
    match key_holder(&state.db, &request.get_ref().fingerprint, state.clock.now_us()).await? {
        Some(KeyHolder::User(identity)) => Ok(ResolveKeyResponse { identity: Some(identity) }),
        Some(KeyHolder::Repositories(_)) => Ok(ResolveKeyResponse { identity: None }),
        None => Err(AuthError::BadCredentials.into()),
    }
}
