use ferrite_kit::auth::{AuthError, TokenHash};
use ferrite_proto::repo::{AuthenticateRequest, AuthenticateResponse};
use tonic::Request;

use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;

pub(super) async fn handle(
    state: &AppState,
    _: Permit,
    request: Request<AuthenticateRequest>,
) -> Result<AuthenticateResponse, RepoError> {
    let identity = state.token_authenticator.identity_for_cache(&TokenHash::of(&request.get_ref().token)).await?;
    let identity = identity.ok_or(AuthError::BadCredentials)?;
    Ok(AuthenticateResponse { identity: Some(identity) })
}
