use ferrite_kit::auth::{AuthError, TokenHash};
use ferrite_proto::repo::{AuthenticateRequest, AuthenticateResponse};
use tonic::Request;

use crate::RepoError;
use crate::access::Permit;
use crate::core::Core;

pub(super) async fn handle(
    core: &Core,
    _: Permit,
    request: Request<AuthenticateRequest>,
) -> Result<AuthenticateResponse, RepoError> {
    let identity = core.identity(&TokenHash::of(&request.get_ref().token)).await?;
    let identity = identity.ok_or(AuthError::BadCredentials)?;
    Ok(AuthenticateResponse { identity: Some(identity) })
}
