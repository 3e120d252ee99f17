use ferrite_kit::page::Page;
use ferrite_proto::repo::{SearchUsersRequest, SearchUsersResponse};
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
    request: Request<SearchUsersRequest>,
) -> Result<SearchUsersResponse, RepoError> {
    let request = request.into_inner();
    let text = SearchText::parse_name(&request.query, "q")?;
    let Some(text) = text else { return Ok(SearchUsersResponse::default()) };
    let page = Page::nearest(request.page, request.page_size, MAX_PAGE_SIZE);
    let (rows, total_count) = state.accounts.search(&text, page).await?;
    Ok(SearchUsersResponse { users: encode::users(rows, permit.viewer()), total_count })
}
