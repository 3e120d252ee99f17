use ferrite_kit::auth::Caller;
use ferrite_proto::{
    git::{ListRefsRequest, ListRefsResponse},
    id::RepositoryId,
};
use tonic::Request;

use crate::{repo::read, state::AppState, types::rpc_error::RpcError};

/// Returns a page of refs.
pub(super) async fn list_refs(app: &AppState, request: Request<ListRefsRequest>) -> Result<ListRefsResponse, RpcError> {
    let caller = Caller::of(&request);
    let request = request.into_inner();
    app.authorize(&caller, request.repository_id).await?;
    let page = super::page(request.page, request.page_size)?;
    let listed = app.refs.list(RepositoryId(request.repository_id), &request.prefix, page).await?;
    let found = read::references(listed);
    Ok(ListRefsResponse {
        references: found.refs.iter().map(super::reference).collect(),
        total_count: super::count(found.total),
    })
}
