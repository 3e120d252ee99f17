use ferrite_proto::repo::{FollowUserRequest, FollowUserResponse};
use tonic::Request;

use super::super::lookup;
use crate::RepoError;
use crate::access::Permit;
use crate::core::Core;

pub(super) async fn handle(
    core: &Core,
    permit: Permit,
    request: Request<FollowUserRequest>,
) -> Result<FollowUserResponse, RepoError> {
    let followed = lookup::user(core, &request.get_ref().username).await?.id;
    let follower = permit.user()?;
    if followed == follower {
        return Err(RepoError::field("username", "invalid", "must not be the caller itself"));
    }
    core.profiles.follow(follower, followed, core.clock.now_us()).await?;
    Ok(FollowUserResponse {})
}
