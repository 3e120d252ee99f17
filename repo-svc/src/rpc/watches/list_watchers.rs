use ferrite_kit::page::Page;
use ferrite_proto::repo::{ListWatchersRequest, ListWatchersResponse};
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
    request: Request<ListWatchersRequest>,
) -> Result<ListWatchersResponse, RepoError> {
    let request = request.into_inner();
    let repository = permit.repository(&state.repositories, request.repository).await?;
    let page = Page::nearest(request.page, request.page_size, MAX_PAGE_SIZE);
    let rows = state.relations.users(Relation::Watch, repository.id(), page).await?;
    let users = rows.into_iter().map(|row| encode::user(row, permit.viewer())).collect();
    Ok(ListWatchersResponse { users, total_count: repository.watcher_count })
}
