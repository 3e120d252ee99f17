use ferrite_kit::page::Page;
use ferrite_proto::repo::{ListAccessTokensRequest, ListAccessTokensResponse};
use tonic::Request;

use super::{encode, lookup};
use crate::RepoError;
use crate::core::Core;
use crate::credentials::Origin;

const MAX_PAGE_SIZE: i32 = 1_000;

pub(super) async fn handle(
    core: &Core,
    request: Request<ListAccessTokensRequest>,
) -> Result<ListAccessTokensResponse, RepoError> {
    let origin = Origin::of(&request);
    let request = request.into_inner();
    let user = lookup::token_owner(core, request.credential, &origin, &request.username).await?;
    let page = Page::nearest(request.page, request.page_size, MAX_PAGE_SIZE);
    let (rows, total_count) = core.tokens.list(user, page).await?;
    Ok(ListAccessTokensResponse { tokens: rows.into_iter().map(encode::token).collect(), total_count })
}
