use ferrite_kit::page::Page;
use ferrite_proto::repo::{ListTeamsRequest, ListTeamsResponse};
use tonic::Request;

use super::{MAX_PAGE_SIZE, encode};
use crate::RepoError;
use crate::access::Permit;
use crate::core::Core;

pub(super) async fn handle(
    core: &Core,
    permit: Permit,
    request: Request<ListTeamsRequest>,
) -> Result<ListTeamsResponse, RepoError> {
    let request = request.into_inner();
    let organization = permit.organization(core, &request.organization).await?;
    let page = Page::nearest(request.page, request.page_size, MAX_PAGE_SIZE);
    let (rows, total_count) = core.teams.list(organization.id(), permit.viewer().user(), page).await?;
    Ok(ListTeamsResponse { teams: rows.into_iter().map(encode).collect(), total_count })
}
