use ferrite_kit::auth::Caller;
use ferrite_proto::{
    git::{ListProtectionsRequest, ListProtectionsResponse},
    id::RepositoryId,
};
use tonic::Request;

use super::encode;
use crate::{state::AppState, types::rpc_error::RpcError};

/// Returns the branch protection rules of a repository.
pub(super) async fn list_protections(
    state: &AppState,
    request: Request<ListProtectionsRequest>,
) -> Result<ListProtectionsResponse, RpcError> {
    let caller = Caller::of(&request);
    let id = request.into_inner().repository_id;
    state.authorize(&caller, id).await?;
    let rules = state.protection.rules(RepositoryId(id)).await?;
    Ok(ListProtectionsResponse { protections: rules.into_vec().into_iter().map(encode::protection).collect() })
}
