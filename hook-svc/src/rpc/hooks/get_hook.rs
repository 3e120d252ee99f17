//! RPC `GetHook`.

use ferrite_proto::hook::{GetHookRequest, GetHookResponse};
use ferrite_proto::id::HookId;
use tonic::Request;

use super::encode::encode;
use crate::error::HookError;
use crate::rpc::service::HookRpc;

pub(super) async fn get_hook(
    service: &HookRpc,
    request: Request<GetHookRequest>,
) -> Result<GetHookResponse, HookError> {
    let access = service.authorize_owner(&request, request.get_ref().owner.as_ref()).await?;
    let hook = service.store.find(access.owner, HookId(request.get_ref().hook_id)).await?;
    Ok(GetHookResponse { hook: Some(encode(hook, &access.organization)) })
}
