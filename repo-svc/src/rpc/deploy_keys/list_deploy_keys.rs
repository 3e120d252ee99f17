use ferrite_kit::page::Page;
use ferrite_proto::repo::{ListDeployKeysRequest, ListDeployKeysResponse};
use tonic::Request;

use super::encoded;
use crate::RepoError;
use crate::access::Permit;
use crate::core::Core;

const MAX_PAGE_SIZE: i32 = 1_000;

pub(super) async fn handle(
    core: &Core,
    permit: Permit,
    request: Request<ListDeployKeysRequest>,
) -> Result<ListDeployKeysResponse, RepoError> {
    let request = request.into_inner();
    let repository = permit.repository(core, request.repository).await?;
    let page = Page::nearest(request.page, request.page_size, MAX_PAGE_SIZE);
    let (rows, total_count) = core.deploy_keys.list(repository.id(), page).await?;
    Ok(ListDeployKeysResponse { keys: rows.into_iter().map(encoded).collect(), total_count })
}
