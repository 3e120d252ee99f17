use ferrite_kit::auth::Caller;
use ferrite_proto::{
    git::{DeleteProtectionRequest, DeleteProtectionResponse},
    id::RepositoryId,
};
use tonic::Request;

use super::{finish, get_protection};
use crate::{ref_updates::AuditContext, state::AppState, types::rpc_error::RpcError};

/// Deletes a branch protection rule.
pub(super) async fn delete_protection(
    state: &AppState,
    request: Request<DeleteProtectionRequest>,
) -> Result<DeleteProtectionResponse, RpcError> {
    let caller = Caller::of(&request);
    let id = RepositoryId(request.get_ref().repository_id);
    let grant = state.authorize(&caller, id).await?;
    let by = AuditContext::of(&caller, &grant, request.metadata());
    let request = request.into_inner();
    finish(state, async move |state| delete(&state, id, request, by).await).await
}

async fn delete(
    state: &AppState,
    id: RepositoryId,
    request: DeleteProtectionRequest,
    by: AuditContext,
) -> Result<DeleteProtectionResponse, RpcError> {
    let guard = state.updater.lock(id).await?;
    let rule = get_protection::named(state, id, request.protection_id, &request.pattern).await?;
    let delivered = state.updater.remove_rule(&guard, &rule, by).await?;
    drop(guard);
    delivered.await;
    Ok(DeleteProtectionResponse {})
}
