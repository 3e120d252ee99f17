use ferrite_proto::repo::{ListOrganizationsRequest, ListOrganizationsResponse};
use tonic::Request;

use super::super::{encode, lists, lookup};
use super::visibility::sees_own_private;
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::MembershipFilter;

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<ListOrganizationsRequest>,
) -> Result<ListOrganizationsResponse, RepoError> {
    let request = request.into_inner();
    let caller = permit.user()?;
    let member = lookup::user_or_caller(state, &permit, &request.username).await?;
    let viewer = permit.viewer();
    let seen = match sees_own_private(viewer) {
        _ if viewer.is_site_administrator() => MembershipFilter::All,
        true if member == caller => MembershipFilter::All,
        true => MembershipFilter::PublicAndShared,
        false => MembershipFilter::Public,
    };
    let page = lists::page(request.page, request.page_size);
    let (rows, total_count) = state.organizations.list(member, Some(caller), seen, page).await?;
    Ok(ListOrganizationsResponse { organizations: rows.into_iter().map(encode::organization).collect(), total_count })
}
