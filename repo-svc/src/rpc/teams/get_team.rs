use ferrite_proto::id::TeamId;
use ferrite_proto::repo::{GetTeamRequest, GetTeamResponse};
use tonic::Request;

use super::super::encode;
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<GetTeamRequest>,
) -> Result<GetTeamResponse, RepoError> {
    let team = permit.team(&state.teams, TeamId(request.get_ref().team_id)).await?;
    Ok(GetTeamResponse { team: Some(encode::team(team)) })
}
