//! RPC `GetMilestone`.

use ferrite_proto::id::RepositoryId;
use ferrite_proto::issue::{GetMilestoneRequest, GetMilestoneResponse};
use tonic::Request;

use crate::error::IssueError;
use crate::rpc::{IssueRpc, encode};

pub(super) async fn get_milestone(
    service: &IssueRpc,
    request: Request<GetMilestoneRequest>,
) -> Result<GetMilestoneResponse, IssueError> {
    service.authorize_settings(&request, request.get_ref().repository_id).await?;
    let GetMilestoneRequest { repository_id, milestone_id } = request.into_inner();
    let milestone = service.milestone(RepositoryId(repository_id), milestone_id).await?;
    Ok(GetMilestoneResponse { milestone: Some(encode::milestone(milestone)) })
}
