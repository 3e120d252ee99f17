use ferrite_proto::repo::{ListMembersRequest, ListMembersResponse};
use tonic::Request;

use super::super::{encode, lists, lookup};
use super::visibility::sees_all;
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<ListMembersRequest>,
) -> Result<ListMembersResponse, RepoError> {
    let request = request.into_inner();
    let viewer = permit.viewer();
    let organization = lookup::organization(state, &request.organization, viewer).await?;
    let page = lists::page(request.page, request.page_size);
    let only_public = !sees_all(viewer, &organization);
    let (rows, total_count) = state.organizations.members(organization.id(), only_public, page).await?;
    Ok(ListMembersResponse { users: encode::users(rows, viewer), total_count })
}
