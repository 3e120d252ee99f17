use ferrite_proto::repo::{IsFollowingRequest, IsFollowingResponse};
use tonic::Request;

use super::super::lookup;
use crate::RepoError;
use crate::access::Permit;
use crate::core::Core;

pub(super) async fn handle(
    core: &Core,
    permit: Permit,
    request: Request<IsFollowingRequest>,
) -> Result<IsFollowingResponse, RepoError> {
    let request = request.into_inner();
    let follower = super::user_or_caller(core, &permit, &request.username).await?;
    let followed = lookup::user(core, &request.target).await?.id;
    Ok(IsFollowingResponse { is_following: core.profiles.is_following(follower, followed).await? })
}
