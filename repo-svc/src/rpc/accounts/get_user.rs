use ferrite_proto::repo::{GetUserRequest, GetUserResponse};
use tonic::Request;

use super::super::{encode, lookup};
use crate::RepoError;
use crate::access::Permit;
use crate::core::Core;

pub(super) async fn handle(
    core: &Core,
    permit: Permit,
    request: Request<GetUserRequest>,
) -> Result<GetUserResponse, RepoError> {
    let user = lookup::account(core, &request.get_ref().username).await?;
    Ok(GetUserResponse { user: Some(encode::user(user, permit.viewer())) })
}
