use ferrite_kit::page::Page;
use ferrite_proto::repo::{ListPublicKeysRequest, ListPublicKeysResponse};
use tonic::Request;

use super::super::lookup;
use crate::RepoError;
use crate::access::Permit;
use crate::core::Core;

const MAX_PAGE_SIZE: i32 = 1_000;

pub(super) async fn handle(
    core: &Core,
    permit: Permit,
    request: Request<ListPublicKeysRequest>,
) -> Result<ListPublicKeysResponse, RepoError> {
    let request = request.into_inner();
    let user = match request.username.as_str() {
        "" => permit.user()?,
        name => lookup::user(core, name).await?.id,
    };
    let page = Page::nearest(request.page, request.page_size, MAX_PAGE_SIZE);
    let (rows, total_count) = core.public_keys.list(user, page).await?;
    Ok(ListPublicKeysResponse { keys: rows.into_iter().map(super::encode).collect(), total_count })
}
