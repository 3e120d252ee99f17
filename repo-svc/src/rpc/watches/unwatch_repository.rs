use ferrite_proto::repo::{UnwatchRepositoryRequest, UnwatchRepositoryResponse};
use tonic::Request;

use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::Relation;

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<UnwatchRepositoryRequest>,
) -> Result<UnwatchRepositoryResponse, RepoError> {
    let by = request.into_inner().repository;
    let repository = permit.visible_repository(&state.repositories, by).await?;
    state.relations.remove(Relation::Watch, permit.user()?, repository.id()).await?;
    Ok(UnwatchRepositoryResponse {})
}
