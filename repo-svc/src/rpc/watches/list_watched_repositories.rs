use ferrite_proto::repo::{ListWatchedRepositoriesRequest, ListWatchedRepositoriesResponse};
use tonic::Request;

use super::super::{lists, lookup, parents};
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::Relation;

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<ListWatchedRepositoriesRequest>,
) -> Result<ListWatchedRepositoriesResponse, RepoError> {
    let request = request.into_inner();
    let user = lookup::user_or_caller(state, &permit, &request.username).await?;
    let page = lists::page(request.page, request.page_size);
    let (rows, total_count) = state.repositories.list_related(Relation::Watch, user, permit.viewer(), page).await?;
    let repositories = parents::encode_all(&state.repositories, rows, permit.viewer()).await?;
    Ok(ListWatchedRepositoriesResponse { repositories, total_count })
}
