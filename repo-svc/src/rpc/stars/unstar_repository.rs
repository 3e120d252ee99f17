use ferrite_proto::repo::{UnstarRepositoryRequest, UnstarRepositoryResponse};
use tonic::Request;

use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::Relation;

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<UnstarRepositoryRequest>,
) -> Result<UnstarRepositoryResponse, RepoError> {
    let by = request.into_inner().repository;
    let repository = permit.visible_repository_by_any_name(&state.repositories, by).await?;
    state.relations.remove(Relation::Star, permit.user()?, repository.id()).await?;
    Ok(UnstarRepositoryResponse {})
}
