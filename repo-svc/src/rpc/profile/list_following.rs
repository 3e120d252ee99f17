use ferrite_kit::page::Page;
use ferrite_proto::repo::{ListFollowingRequest, ListFollowingResponse};
use tonic::Request;

use super::FOLLOWS_PAGE_MAX;
use crate::RepoError;
use crate::access::Permit;
use crate::core::Core;
use crate::store::Follows;

pub(super) async fn handle(
    core: &Core,
    permit: Permit,
    request: Request<ListFollowingRequest>,
) -> Result<ListFollowingResponse, RepoError> {
    let request = request.into_inner();
    let user = super::user_or_caller(core, &permit, &request.username).await?;
    let page = Page::nearest(request.page, request.page_size, FOLLOWS_PAGE_MAX);
    let (rows, total_count) = core.profiles.follows(user, Follows::Following, page).await?;
    Ok(ListFollowingResponse { users: super::users(rows, &permit), total_count })
}
