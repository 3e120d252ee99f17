use ferrite_kit::page::Page;
use ferrite_proto::id::TeamId;
use ferrite_proto::repo::{ListTeamMembersRequest, ListTeamMembersResponse};
use tonic::Request;

use super::super::encode;
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;

const MAX_PAGE_SIZE: i32 = 1_000;

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<ListTeamMembersRequest>,
) -> Result<ListTeamMembersResponse, RepoError> {
    let (request, viewer) = (request.into_inner(), permit.viewer());
    let team = permit.team(&state.teams, TeamId(request.team_id)).await?;
    let page = Page::nearest(request.page, request.page_size, MAX_PAGE_SIZE);
    let (rows, total_count) = state.teams.members(team.id(), page).await?;
    Ok(ListTeamMembersResponse { users: rows.into_iter().map(|row| encode::user(row, viewer)).collect(), total_count })
}
