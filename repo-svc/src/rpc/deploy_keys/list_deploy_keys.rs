use ferrite_proto::repo::{ListDeployKeysRequest, ListDeployKeysResponse};
use tonic::Request;

use super::super::{encode, lists};
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<ListDeployKeysRequest>,
) -> Result<ListDeployKeysResponse, RepoError> {
    let request = request.into_inner();
    let repository = permit.repository(&state.repositories, request.repository).await?;
    let page = lists::page(request.page, request.page_size);
    let (rows, total_count) = state.deploy_keys.list(repository.id(), page).await?;
    Ok(ListDeployKeysResponse { keys: rows.into_iter().map(encode::deploy_key).collect(), total_count })
}
