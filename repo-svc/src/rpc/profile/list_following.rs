use ferrite_kit::page::Page;
use ferrite_proto::repo::{ListFollowingRequest, ListFollowingResponse};
use tonic::Request;

use super::super::{encode, lookup};
use super::MAX_FOLLOWS_PAGE_SIZE;
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::FollowDirection;

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<ListFollowingRequest>,
) -> Result<ListFollowingResponse, RepoError> {
    let request = request.into_inner();
    let user = lookup::user_or_caller(state, &permit, &request.username).await?;
    let page = Page::nearest(request.page, request.page_size, MAX_FOLLOWS_PAGE_SIZE);
    let (rows, total_count) = state.profiles.follows(user, FollowDirection::Following, page).await?;
    Ok(ListFollowingResponse { users: encode::users(rows, permit.viewer()), total_count })
}
