use ferrite_kit::auth::{AuthError, Caller, TokenHash};
use ferrite_proto::repo::{AuthenticateRequest, AuthenticateResponse};
use tonic::Request;

use crate::RepoError;
use crate::core::Core;

pub(super) async fn handle(
    core: &Core,
    request: Request<AuthenticateRequest>,
) -> Result<AuthenticateResponse, RepoError> {
    Caller::of(&request).require_service()?;
    let identity = core.tokens.identity(&TokenHash::of(&request.get_ref().token)).await?;
    let identity = identity.ok_or(AuthError::BadCredentials)?;
    Ok(AuthenticateResponse { identity: Some(identity) })
}
