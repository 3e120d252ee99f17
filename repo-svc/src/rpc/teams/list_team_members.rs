use ferrite_proto::id::TeamId;
use ferrite_proto::repo::{ListTeamMembersRequest, ListTeamMembersResponse};
use tonic::Request;

use super::super::{encode, lists};
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<ListTeamMembersRequest>,
) -> Result<ListTeamMembersResponse, RepoError> {
    let (request, viewer) = (request.into_inner(), permit.viewer());
    let team = permit.team(&state.teams, TeamId(request.team_id)).await?;
    let page = lists::page(request.page, request.page_size);
    let (rows, total_count) = state.teams.members(team.id(), page).await?;
    Ok(ListTeamMembersResponse { users: encode::users(rows, viewer), total_count })
}
