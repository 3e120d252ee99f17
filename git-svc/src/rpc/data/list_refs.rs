use ferrite_kit::auth::Caller;
use ferrite_proto::{
    git::{ListRefsRequest, ListRefsResponse},
    id::RepositoryId,
};
use tonic::Request;

use super::convert;
use crate::{
    repo::read,
    rpc::page::{parse_page, total_count},
    state::AppState,
    types::rpc_error::RpcError,
};

/// Returns a page of refs.
pub(super) async fn list_refs(
    state: &AppState,
    request: Request<ListRefsRequest>,
) -> Result<ListRefsResponse, RpcError> {
    let caller = Caller::of(&request);
    let request = request.into_inner();
    state.authorize(&caller, request.repository_id).await?;
    let page = parse_page(request.page, request.page_size)?;
    let listed = state.refs.list(RepositoryId(request.repository_id), &request.prefix, page).await?;
    let found = read::references(listed);
    Ok(ListRefsResponse {
        references: found.refs.iter().map(convert::reference).collect(),
        total_count: total_count(found.total),
    })
}
