use ferrite_proto::repo::{IsStarredRequest, IsStarredResponse};
use tonic::Request;

use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::Relation;

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<IsStarredRequest>,
) -> Result<IsStarredResponse, RepoError> {
    let by = request.into_inner().repository;
    let repository = permit.visible_repository_by_any_name(&state.repositories, by).await?;
    let star = state.relations.find(Relation::Star, permit.user()?, repository.id()).await?;
    Ok(IsStarredResponse { is_starred: star.is_some() })
}
