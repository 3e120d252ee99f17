use ferrite_proto::repo::{ListTeamsRequest, ListTeamsResponse};
use tonic::Request;

use super::super::{encode, lists};
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<ListTeamsRequest>,
) -> Result<ListTeamsResponse, RepoError> {
    let request = request.into_inner();
    let organization = permit.organization(&state.organizations, &request.organization).await?;
    let page = lists::page(request.page, request.page_size);
    let (rows, total_count) = state.teams.list(organization.id(), permit.viewer().user(), page).await?;
    Ok(ListTeamsResponse { teams: rows.into_iter().map(encode::team).collect(), total_count })
}
