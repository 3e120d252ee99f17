use ferrite_kit::page::Page;
use ferrite_proto::repo::{ListAccessTokensRequest, ListAccessTokensResponse};
use tonic::Request;

use super::super::{encode, lookup};
use crate::RepoError;
use crate::access::{Permit, Viewer};
use crate::core::Core;
use crate::store::TokenRow;

const MAX_PAGE_SIZE: i32 = 1_000;

pub(super) async fn handle(
    core: &Core,
    permit: Permit,
    request: Request<ListAccessTokensRequest>,
) -> Result<ListAccessTokensResponse, RepoError> {
    let request = request.into_inner();
    let owner = lookup::token_owner(core, request.credential, permit.origin(), &request.username).await?;
    let page = Page::nearest(request.page, request.page_size, MAX_PAGE_SIZE);
    let (rows, total_count) = core.tokens.list(owner.id(), page).await?;
    let ids = rows.iter().filter_map(TokenRow::only).flatten().collect();
    let names = core.repositories.names(&ids, &Viewer::of(Some(owner.identity()))).await?;
    Ok(ListAccessTokensResponse {
        tokens: rows.into_iter().map(|row| encode::token(row, &names)).collect(),
        total_count,
    })
}
