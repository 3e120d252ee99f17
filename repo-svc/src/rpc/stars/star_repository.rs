use ferrite_proto::repo::{StarRepositoryRequest, StarRepositoryResponse};
use tonic::Request;

use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::Relation;

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<StarRepositoryRequest>,
) -> Result<StarRepositoryResponse, RepoError> {
    let by = request.into_inner().repository;
    let repository = permit.visible_repository_by_any_name(&state.repositories, by).await?;
    state.relations.add(Relation::Star, permit.user()?, repository.id(), state.clock.now_us()).await?;
    Ok(StarRepositoryResponse {})
}
