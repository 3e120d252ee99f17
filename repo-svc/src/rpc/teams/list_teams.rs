use ferrite_kit::page::Page;
use ferrite_proto::repo::{ListTeamsRequest, ListTeamsResponse};
use tonic::Request;

use super::super::encode;
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;

const MAX_PAGE_SIZE: i32 = 1_000;

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<ListTeamsRequest>,
) -> Result<ListTeamsResponse, RepoError> {
    let request = request.into_inner();
    let organization = permit.organization(&state.organizations, &request.organization).await?;
    let page = Page::nearest(request.page, request.page_size, MAX_PAGE_SIZE);
    let (rows, total_count) = state.teams.list(organization.id(), permit.viewer().user(), page).await?;
    Ok(ListTeamsResponse { teams: rows.into_iter().map(encode::team).collect(), total_count })
}
