use ferrite_kit::page::Page;
use ferrite_proto::repo::{ListOrganizationsRequest, ListOrganizationsResponse};
use tonic::Request;

use super::super::{encode, lookup};
use super::visibility::sees_own_private;
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::MembershipFilter;

const MAX_PAGE_SIZE: i32 = 1_000;

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<ListOrganizationsRequest>,
) -> Result<ListOrganizationsResponse, RepoError> {
    let request = request.into_inner();
    let caller = permit.user()?;
    let member = match request.username.as_str() {
        "" => caller,
        name => lookup::user(state, name).await?.id,
    };
    let viewer = permit.viewer();
    let seen = match sees_own_private(viewer) {
        _ if viewer.is_site_administrator() => MembershipFilter::All,
        true if member == caller => MembershipFilter::All,
        true => MembershipFilter::PublicAndShared,
        false => MembershipFilter::Public,
    };
    let page = Page::nearest(request.page, request.page_size, MAX_PAGE_SIZE);
    let (rows, total_count) = state.organizations.list(member, Some(caller), seen, page).await?;
    Ok(ListOrganizationsResponse { organizations: rows.into_iter().map(encode::organization).collect(), total_count })
}
