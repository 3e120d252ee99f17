use ferrite_proto::repo::{ListStargazersRequest, ListStargazersResponse};
use tonic::Request;

use super::super::{encode, lists};
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::Relation;

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<ListStargazersRequest>,
) -> Result<ListStargazersResponse, RepoError> {
    let request = request.into_inner();
    let repository = permit.repository(&state.repositories, request.repository).await?;
    let page = lists::page(request.page, request.page_size);
    let rows = state.relations.users(Relation::Star, repository.id(), page).await?;
    let users = encode::users(rows, permit.viewer());
    Ok(ListStargazersResponse { users, total_count: repository.star_count })
}
