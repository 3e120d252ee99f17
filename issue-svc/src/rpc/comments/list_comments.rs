//! RPC `ListComments`.

use ferrite_kit::page::Page;
use ferrite_proto::id::RepositoryId;
use ferrite_proto::issue::{ListCommentsRequest, ListCommentsResponse};
use tonic::Request;

use crate::error::IssueError;
use crate::rpc::{IssueRpc, encode};

const MAX_PAGE_SIZE: i32 = 1000;

pub(super) async fn list_comments(
    service: &IssueRpc,
    request: Request<ListCommentsRequest>,
) -> Result<ListCommentsResponse, IssueError> {
    service.authorize(&request, request.get_ref().repository_id).await?;
    let request = request.into_inner();
    let page = Page::parse(request.page, request.page_size, MAX_PAGE_SIZE).map_err(IssueError::Invalid)?;
    let repository = RepositoryId(request.repository_id);
    let since_us = request.since.map(encode::micros);
    let page = if request.issue_number == 0 {
        service.store.list_repository_comments(repository, since_us, page).await?
    } else {
        let issue = service.issue(repository, request.issue_number).await?;
        service.store.list_issue_comments(&issue, since_us, page).await?
    };
    let comments = page.comments.into_iter().map(encode::comment).collect();
    Ok(ListCommentsResponse { comments, total_count: page.total, is_partial: page.is_partial })
}
