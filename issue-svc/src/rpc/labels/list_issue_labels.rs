//! RPC `ListIssueLabels`.

use ferrite_proto::id::RepositoryId;
use ferrite_proto::issue::{ListIssueLabelsRequest, ListIssueLabelsResponse};
use tonic::Request;

use crate::error::IssueError;
use crate::rpc::{IssueRpc, encode};

pub(super) async fn list_issue_labels(
    service: &IssueRpc,
    request: Request<ListIssueLabelsRequest>,
) -> Result<ListIssueLabelsResponse, IssueError> {
    service.authorize(&request, request.get_ref().repository_id).await?;
    let ListIssueLabelsRequest { repository_id, issue_number: number } = request.into_inner();
    let issue = service.full_issue(RepositoryId(repository_id), number).await?;
    Ok(ListIssueLabelsResponse { labels: issue.labels.into_iter().map(encode::label).collect() })
}
