use ferrite_proto::repo::{GetWatchRequest, GetWatchResponse};
use tonic::Request;

use super::watch;
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::Relation;

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<GetWatchRequest>,
) -> Result<GetWatchResponse, RepoError> {
    let by = request.into_inner().repository;
    let repository = permit.visible_repository(&state.repositories, by).await?;
    let began_us = state.relations.find(Relation::Watch, permit.user()?, repository.id()).await?;
    let began_us = began_us.ok_or(RepoError::WatchNotFound)?;
    Ok(GetWatchResponse { watch: Some(watch(repository, began_us)) })
}
