use ferrite_proto::id::TeamId;
use ferrite_proto::repo::{GetTeamRequest, GetTeamResponse};
use tonic::Request;

use super::encode;
use crate::RepoError;
use crate::access::Permit;
use crate::core::Core;

pub(super) async fn handle(
    core: &Core,
    permit: Permit,
    request: Request<GetTeamRequest>,
) -> Result<GetTeamResponse, RepoError> {
    let team = permit.team(core, TeamId(request.get_ref().team_id)).await?;
    Ok(GetTeamResponse { team: Some(encode(team)) })
}
