use ferrite_proto::repo::{FollowUserRequest, FollowUserResponse};
use tonic::Request;

use super::super::lookup;
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<FollowUserRequest>,
) -> Result<FollowUserResponse, RepoError> {
    let followed = lookup::user(state, &request.get_ref().username).await?.id;
    let follower = permit.user()?;
    if followed == follower {
        return Err(RepoError::field("username", "invalid", "must not be the caller itself"));
    }
    state.profiles.follow(follower, followed, state.clock.now_us()).await?;
    Ok(FollowUserResponse {})
}
