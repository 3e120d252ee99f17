use ferrite_proto::repo::{GetAuthenticatedUserRequest, GetAuthenticatedUserResponse};
use tonic::Request;

use super::super::encode;
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;

pub(super) async fn handle(
    _: &AppState,
    permit: Permit,
    _: Request<GetAuthenticatedUserRequest>,
) -> Result<GetAuthenticatedUserResponse, RepoError> {
    // Up to date: a change of the account revokes what is cached of its tokens.
    Ok(GetAuthenticatedUserResponse { user: Some(encode::identity(permit.identity()?)) })
}
