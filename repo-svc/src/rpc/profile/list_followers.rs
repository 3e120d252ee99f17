use ferrite_kit::page::Page;
use ferrite_proto::repo::{ListFollowersRequest, ListFollowersResponse};
use tonic::Request;

use super::FOLLOWS_PAGE_MAX;
use crate::RepoError;
use crate::access::Permit;
use crate::core::Core;
use crate::store::Follows;

pub(super) async fn handle(
    core: &Core,
    permit: Permit,
    request: Request<ListFollowersRequest>,
) -> Result<ListFollowersResponse, RepoError> {
    let request = request.into_inner();
    let user = super::user_or_caller(core, &permit, &request.username).await?;
    let page = Page::nearest(request.page, request.page_size, FOLLOWS_PAGE_MAX);
    let (rows, total_count) = core.profiles.follows(user, Follows::Followers, page).await?;
    Ok(ListFollowersResponse { users: super::users(rows, &permit), total_count })
}
