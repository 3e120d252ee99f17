use ferrite_kit::page::Page;
use ferrite_proto::repo::{ListDeployKeysRequest, ListDeployKeysResponse};
use tonic::Request;

use super::super::encode;
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;

const MAX_PAGE_SIZE: i32 = 1_000;

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<ListDeployKeysRequest>,
) -> Result<ListDeployKeysResponse, RepoError> {
    let request = request.into_inner();
    let repository = permit.repository(&state.repositories, request.repository).await?;
    let page = Page::nearest(request.page, request.page_size, MAX_PAGE_SIZE);
    let (rows, total_count) = state.deploy_keys.list(repository.id(), page).await?;
    Ok(ListDeployKeysResponse { keys: rows.into_iter().map(encode::deploy_key).collect(), total_count })
}
