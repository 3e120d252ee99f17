//! RPC `ListComments`.

use ferrite_kit::page::Page;
use ferrite_proto::id::RepositoryId;
use ferrite_proto::issue::{ListCommentsRequest, ListCommentsResponse};
use tonic::{Request, Status};

use crate::error::IssueError;
use crate::rpc::{IssueRpc, encode};

const MAX_PAGE_SIZE: i32 = 1000;

pub(super) async fn list_comments(
    service: &IssueRpc,
    request: Request<ListCommentsRequest>,
) -> Result<ListCommentsResponse, Status> {
    service.authorize(&request, request.get_ref().repository_id).await?;
    Ok(list(service, request.into_inner()).await?)
}

async fn list(service: &IssueRpc, request: ListCommentsRequest) -> Result<ListCommentsResponse, IssueError> {
    let page = Page::parse(request.page, request.page_size, MAX_PAGE_SIZE).map_err(IssueError::Invalid)?;
    let repository = RepositoryId(request.repository_id);
    let since_us = request.since.map(encode::micros);
    let store = &service.store;
    let page = if request.issue_number == 0 {
        store.list_repository_comments(repository, since_us, page).await?
    } else {
        let number = request.issue_number;
        let issue = store.find(&mut store.reader(), repository, number).await?;
        store.list_issue_comments(&issue.ok_or(IssueError::NotFound { number })?, since_us, page).await?
    };
    let comments = page.comments.into_iter().map(encode::comment).collect();
    Ok(ListCommentsResponse { comments, total_count: page.total, is_partial: page.is_partial })
}
