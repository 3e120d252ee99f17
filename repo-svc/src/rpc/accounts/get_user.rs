use ferrite_proto::repo::{GetUserRequest, GetUserResponse};
use tonic::Request;

use super::super::{encode, lookup};
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<GetUserRequest>,
) -> Result<GetUserResponse, RepoError> {
    let user = lookup::account(state, &request.get_ref().username).await?;
    Ok(GetUserResponse { user: Some(encode::user(user, permit.viewer())) })
}
