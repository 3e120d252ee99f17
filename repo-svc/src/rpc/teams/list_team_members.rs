use ferrite_kit::page::Page;
use ferrite_proto::id::TeamId;
use ferrite_proto::repo::{ListTeamMembersRequest, ListTeamMembersResponse};
use tonic::Request;

use super::super::encode;
use super::MAX_PAGE_SIZE;
use crate::RepoError;
use crate::access::Permit;
use crate::core::Core;

pub(super) async fn handle(
    core: &Core,
    permit: Permit,
    request: Request<ListTeamMembersRequest>,
) -> Result<ListTeamMembersResponse, RepoError> {
    let (request, viewer) = (request.into_inner(), permit.viewer());
    let team = permit.team(core, TeamId(request.team_id)).await?;
    let page = Page::nearest(request.page, request.page_size, MAX_PAGE_SIZE);
    let (rows, total_count) = core.teams.members(team.id(), page).await?;
    Ok(ListTeamMembersResponse { users: rows.into_iter().map(|row| encode::user(row, viewer)).collect(), total_count })
}
