use ferrite_kit::page::Page;
use ferrite_proto::repo::{SearchRepositoriesRequest, SearchRepositoriesResponse};
use tonic::Request;

use super::super::parents;
use crate::error::RepoError;
use crate::model::RepositorySearch;
use crate::rpc::permit::Permit;
use crate::state::AppState;

const MAX_PAGE_SIZE: i32 = 50;

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<SearchRepositoriesRequest>,
) -> Result<SearchRepositoriesResponse, RepoError> {
    let request = request.into_inner();
    let search = RepositorySearch::check(&request)?;
    let page = Page::nearest(request.page, request.page_size, MAX_PAGE_SIZE);
    let found = state.repositories.search(&search, permit.viewer(), page).await?;
    let repositories = parents::encode_all(&state.repositories, found.repositories, permit.viewer()).await?;
    Ok(SearchRepositoriesResponse { repositories, total_count: found.total, is_partial: found.is_partial })
}
