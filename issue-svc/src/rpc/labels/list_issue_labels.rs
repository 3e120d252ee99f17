//! RPC `ListIssueLabels`.

use ferrite_proto::id::RepositoryId;
use ferrite_proto::issue::{ListIssueLabelsRequest, ListIssueLabelsResponse};
use tonic::{Request, Status};

use crate::error::IssueError;
use crate::rpc::{IssueRpc, encode};

pub(super) async fn list_issue_labels(
    service: &IssueRpc,
    request: Request<ListIssueLabelsRequest>,
) -> Result<ListIssueLabelsResponse, Status> {
    service.authorize(&request, request.get_ref().repository_id).await?;
    Ok(list(service, request.into_inner()).await?)
}

async fn list(service: &IssueRpc, request: ListIssueLabelsRequest) -> Result<ListIssueLabelsResponse, IssueError> {
    let number = request.issue_number;
    let issue = service.store.find_full(RepositoryId(request.repository_id), number).await?;
    let issue = issue.ok_or(IssueError::NotFound { number })?;
    Ok(ListIssueLabelsResponse { labels: issue.labels.into_iter().map(encode::label).collect() })
}
