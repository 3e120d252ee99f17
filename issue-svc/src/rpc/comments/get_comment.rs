//! RPC `GetComment`.

use ferrite_proto::id::RepositoryId;
use ferrite_proto::issue::{GetCommentRequest, GetCommentResponse};
use tonic::Request;

use crate::error::IssueError;
use crate::rpc::{IssueRpc, encode};

pub(super) async fn get_comment(
    service: &IssueRpc,
    request: Request<GetCommentRequest>,
) -> Result<GetCommentResponse, IssueError> {
    service.authorize(&request, request.get_ref().repository_id).await?;
    let GetCommentRequest { repository_id, issue_number, comment_id } = request.into_inner();
    let comment = service.comment(RepositoryId(repository_id), issue_number, comment_id).await?;
    Ok(GetCommentResponse { comment: Some(encode::comment(comment)) })
}
