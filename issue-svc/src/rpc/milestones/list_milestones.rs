//! RPC `ListMilestones`.

use ferrite_kit::page::Page;
use ferrite_proto::id::RepositoryId;
use ferrite_proto::issue::{ListMilestonesRequest, ListMilestonesResponse};
use tonic::Request;

use crate::error::IssueError;
use crate::rpc::{IssueRpc, encode};

const MAX_PAGE_SIZE: i32 = 1000;

pub(super) async fn list_milestones(
    service: &IssueRpc,
    request: Request<ListMilestonesRequest>,
) -> Result<ListMilestonesResponse, IssueError> {
    service.authorize_settings(&request, request.get_ref().repository_id).await?;
    let request = request.into_inner();
    let is_closed = encode::is_closed(request.state)?;
    let page = Page::parse(request.page, request.page_size, MAX_PAGE_SIZE).map_err(IssueError::Invalid)?;
    let repository = RepositoryId(request.repository_id);
    let (milestones, total_count) = service.store.list_milestones(repository, is_closed, page).await?;
    let milestones = milestones.into_iter().map(encode::milestone).collect();
    Ok(ListMilestonesResponse { milestones, total_count })
}
