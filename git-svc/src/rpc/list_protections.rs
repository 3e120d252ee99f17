use ferrite_proto::git::{ListProtectionsRequest, ListProtectionsResponse};
use tonic::Request;

use super::{authorize, encode};
use crate::{state::AppState, types::rpc_error::RpcError};

/// Returns the branch protection rules of a repository.
pub(super) async fn list_protections(
    state: &AppState,
    request: Request<ListProtectionsRequest>,
) -> Result<ListProtectionsResponse, RpcError> {
    let (_, id) = authorize(state, request, |request| request.repository_id).await?;
    let rules = state.protection.rules(id).await?;
    Ok(ListProtectionsResponse { protections: rules.into_vec().into_iter().map(encode::protection).collect() })
}
