use ferrite_proto::id::TeamId;
use ferrite_proto::repo::{ListTeamRepositoriesRequest, ListTeamRepositoriesResponse};
use tonic::Request;

use super::super::{lists, parents};
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<ListTeamRepositoriesRequest>,
) -> Result<ListTeamRepositoriesResponse, RepoError> {
    let (request, viewer) = (request.into_inner(), permit.viewer());
    let team = permit.team(&state.teams, TeamId(request.team_id)).await?;
    let page = lists::page(request.page, request.page_size);
    let (rows, total_count) = state.repositories.list_of_team(&team, viewer, page).await?;
    let repositories = parents::encode_all(&state.repositories, rows, viewer).await?;
    Ok(ListTeamRepositoriesResponse { repositories, total_count })
}
