//! RPC `DeleteHook`.

use ferrite_kit::idempotency::{IdempotencyKey, once};
use ferrite_proto::events::HookAction;
use ferrite_proto::hook::{DeleteHookRequest, DeleteHookResponse};
use ferrite_proto::id::HookId;
use tonic::Request;

use crate::error::HookError;
use crate::rpc::service::HookRpc;

pub(super) async fn delete_hook(
    service: &HookRpc,
    request: Request<DeleteHookRequest>,
) -> Result<DeleteHookResponse, HookError> {
    let access = service.authorize_owner(&request, request.get_ref().owner.as_ref()).await?;
    let key = IdempotencyKey::of(&request, access.user.0, "DeleteHook")?;
    let id = HookId(request.get_ref().hook_id);
    let delete = async {
        let now_us = service.clock.now_us();
        let mut tx = service.store.db().begin().await?;
        let hook = service.store.delete(&mut tx, access.owner, id, now_us).await?;
        let sealer = service.store.sealer();
        let event = access.audit.record(&mut tx, sealer, &hook, HookAction::Deleted, now_us).await?;
        service.commit(tx, Some(event), key.as_ref(), DeleteHookResponse {}, now_us).await
    };
    once(service.store.db(), key.as_ref(), delete).await
}
