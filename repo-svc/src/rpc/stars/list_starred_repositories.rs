use ferrite_kit::page::Page;
use ferrite_proto::repo::{ListStarredRepositoriesRequest, ListStarredRepositoriesResponse};
use tonic::Request;

use super::super::{lookup, parents};
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::Relation;

const MAX_PAGE_SIZE: i32 = 1_000;

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<ListStarredRepositoriesRequest>,
) -> Result<ListStarredRepositoriesResponse, RepoError> {
    let request = request.into_inner();
    let user = lookup::user_or_caller(state, &permit, &request.username).await?;
    let page = Page::nearest(request.page, request.page_size, MAX_PAGE_SIZE);
    let (rows, total_count) = state.repositories.list_related(Relation::Star, user, permit.viewer(), page).await?;
    let repositories = parents::encode_all(&state.repositories, rows, permit.viewer()).await?;
    Ok(ListStarredRepositoriesResponse { repositories, total_count })
}
