use ferrite_kit::page::Page;
use ferrite_proto::repo::{ListStargazersRequest, ListStargazersResponse};
use tonic::Request;

use super::super::encode;
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::Relation;

const MAX_PAGE_SIZE: i32 = 1_000;

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<ListStargazersRequest>,
) -> Result<ListStargazersResponse, RepoError> {
    let request = request.into_inner();
    let repository = permit.repository(&state.repositories, request.repository).await?;
    let page = Page::nearest(request.page, request.page_size, MAX_PAGE_SIZE);
    let rows = state.relations.users(Relation::Star, repository.id(), page).await?;
    let users = rows.into_iter().map(|row| encode::user(row, permit.viewer())).collect();
    Ok(ListStargazersResponse { users, total_count: repository.star_count })
}
