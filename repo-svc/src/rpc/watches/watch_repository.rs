use ferrite_proto::repo::{WatchRepositoryRequest, WatchRepositoryResponse};
use tonic::Request;

use super::watch;
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::Relation;

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<WatchRepositoryRequest>,
) -> Result<WatchRepositoryResponse, RepoError> {
    let by = request.into_inner().repository;
    let repository = permit.visible_repository(&state.repositories, by).await?;
    let now = state.clock.now_us();
    let began_us = state.relations.add(Relation::Watch, permit.user()?, repository.id(), now).await?;
    Ok(WatchRepositoryResponse { watch: Some(watch(repository, began_us)) })
}
