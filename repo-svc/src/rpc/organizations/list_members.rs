use ferrite_kit::page::Page;
use ferrite_proto::repo::{ListMembersRequest, ListMembersResponse};
use tonic::Request;

use super::super::{encode, lookup};
use super::visibility::sees_all;
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;

const MAX_PAGE_SIZE: i32 = 1_000;

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<ListMembersRequest>,
) -> Result<ListMembersResponse, RepoError> {
    let request = request.into_inner();
    let viewer = permit.viewer();
    let organization = lookup::organization(state, &request.organization, viewer).await?;
    let page = Page::nearest(request.page, request.page_size, MAX_PAGE_SIZE);
    let only_public = !sees_all(viewer, &organization);
    let (rows, total_count) = state.organizations.members(organization.id(), only_public, page).await?;
    Ok(ListMembersResponse { users: rows.into_iter().map(|row| encode::user(row, viewer)).collect(), total_count })
}
