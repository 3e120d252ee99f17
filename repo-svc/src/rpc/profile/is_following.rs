use ferrite_proto::repo::{IsFollowingRequest, IsFollowingResponse};
use tonic::Request;

use super::super::lookup;
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<IsFollowingRequest>,
) -> Result<IsFollowingResponse, RepoError> {
    let request = request.into_inner();
    let follower = lookup::user_or_caller(state, &permit, &request.username).await?;
    let followed = lookup::user(state, &request.target).await?.id;
    Ok(IsFollowingResponse { is_following: state.profiles.is_following(follower, followed).await? })
}
