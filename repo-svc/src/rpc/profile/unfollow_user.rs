use ferrite_proto::repo::{UnfollowUserRequest, UnfollowUserResponse};
use tonic::Request;

use super::super::lookup;
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<UnfollowUserRequest>,
) -> Result<UnfollowUserResponse, RepoError> {
    let followed = lookup::user(state, &request.get_ref().username).await?.id;
    state.profiles.unfollow(permit.user()?, followed).await?;
    Ok(UnfollowUserResponse {})
}
