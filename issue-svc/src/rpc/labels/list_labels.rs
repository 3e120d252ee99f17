//! RPC `ListLabels`.

use ferrite_kit::page::Page;
use ferrite_proto::id::RepositoryId;
use ferrite_proto::issue::{ListLabelsRequest, ListLabelsResponse};
use tonic::Request;

use crate::error::IssueError;
use crate::rpc::{IssueRpc, encode};

const MAX_PAGE_SIZE: i32 = 1000;

pub(super) async fn list_labels(
    service: &IssueRpc,
    request: Request<ListLabelsRequest>,
) -> Result<ListLabelsResponse, IssueError> {
    service.authorize_settings(&request, request.get_ref().repository_id).await?;
    let request = request.into_inner();
    let page = Page::parse(request.page, request.page_size, MAX_PAGE_SIZE).map_err(IssueError::Invalid)?;
    let (labels, total_count) = service.store.list_labels(RepositoryId(request.repository_id), page).await?;
    Ok(ListLabelsResponse { labels: labels.into_iter().map(encode::label).collect(), total_count })
}
