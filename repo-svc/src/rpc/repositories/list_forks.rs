use ferrite_proto::repo::{ListForksRequest, ListForksResponse};
use tonic::Request;

use super::super::{lists, parents};
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<ListForksRequest>,
) -> Result<ListForksResponse, RepoError> {
    let ListForksRequest { repository, page, page_size } = request.into_inner();
    let parent = permit.repository(&state.repositories, repository).await?;
    let page = lists::page(page, page_size);
    let (rows, total_count) = state.repositories.list_forks(parent.id(), permit.viewer(), page).await?;
    let repositories = parents::encode_all(&state.repositories, rows, permit.viewer()).await?;
    Ok(ListForksResponse { repositories, total_count })
}
