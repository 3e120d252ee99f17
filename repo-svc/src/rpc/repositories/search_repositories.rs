use ferrite_kit::page::Page;
use ferrite_proto::id::UserId;
use ferrite_proto::repo::{SearchRepositoriesRequest, SearchRepositoriesResponse};
use tonic::Request;

use super::super::encode;
use crate::error::RepoError;
use crate::model::SearchText;
use crate::rpc::permit::Permit;
use crate::state::AppState;

const MAX_PAGE_SIZE: i32 = 50;

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<SearchRepositoriesRequest>,
) -> Result<SearchRepositoriesResponse, RepoError> {
    let request = request.into_inner();
    let text = SearchText::parse(&request.query, "q").map_err(|violation| RepoError::Invalid(vec![violation]))?;
    let owner = (request.owner_id != 0).then_some(UserId(request.owner_id));
    let page = Page::nearest(request.page, request.page_size, MAX_PAGE_SIZE);
    let (rows, total_count) = state.repositories.search(&text, owner, permit.viewer(), page).await?;
    let repositories = rows.into_iter().map(|row| encode::repository(row, permit.viewer())).collect();
    Ok(SearchRepositoriesResponse { repositories, total_count })
}
