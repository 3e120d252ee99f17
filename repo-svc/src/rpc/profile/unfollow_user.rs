use ferrite_proto::repo::{UnfollowUserRequest, UnfollowUserResponse};
use tonic::Request;

use super::super::lookup;
use crate::RepoError;
use crate::access::Permit;
use crate::core::Core;

pub(super) async fn handle(
    core: &Core,
    permit: Permit,
    request: Request<UnfollowUserRequest>,
) -> Result<UnfollowUserResponse, RepoError> {
    let followed = lookup::user(core, &request.get_ref().username).await?.id;
    core.profiles.unfollow(permit.user()?, followed).await?;
    Ok(UnfollowUserResponse {})
}
