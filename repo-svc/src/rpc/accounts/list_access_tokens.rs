use ferrite_proto::repo::{ListAccessTokensRequest, ListAccessTokensResponse};
use tonic::Request;

use super::super::{encode, lists, lookup};
use crate::access::Viewer;
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::TokenRow;

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<ListAccessTokensRequest>,
) -> Result<ListAccessTokensResponse, RepoError> {
    let request = request.into_inner();
    let owner = lookup::token_owner(state, request.credential, permit.client_address(), &request.username).await?;
    let page = lists::page(request.page, request.page_size);
    let (rows, total_count) = state.tokens.list(owner.id(), page).await?;
    let ids = rows.iter().filter_map(TokenRow::only).flatten().collect();
    let names = state.repositories.names(&ids, &Viewer::of(Some(owner.identity()))).await?;
    Ok(ListAccessTokensResponse {
        tokens: rows.into_iter().map(|row| encode::token(row, &names)).collect(),
        total_count,
    })
}
