use ferrite_proto::git::{ListRefsRequest, ListRefsResponse};
use tonic::Request;

use super::convert;
use crate::{
    repo::read,
    rpc::{authorize, decode, encode},
    state::AppState,
    types::rpc_error::RpcError,
};

/// Returns a page of refs.
pub(super) async fn list_refs(
    state: &AppState,
    request: Request<ListRefsRequest>,
) -> Result<ListRefsResponse, RpcError> {
    let (request, id) = authorize(state, request, |request| request.repository_id).await?;
    let page = decode::parse_page(request.page, request.page_size)?;
    let listed = state.refs.list(id, &request.prefix, page).await?;
    let references = listed.entries.into_iter().map(|entry| convert::reference(&read::listed_reference(entry)));
    Ok(ListRefsResponse { references: references.collect(), total_count: encode::total_count(listed.total) })
}
