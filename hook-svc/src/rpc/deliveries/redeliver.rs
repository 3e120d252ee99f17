//! RPC `Redeliver`.

use ferrite_kit::idempotency::{IdempotencyKey, once};
use ferrite_proto::hook::{RedeliverRequest, RedeliverResponse};
use ferrite_proto::id::HookId;
use tonic::Request;

use super::{check_waiting, decode, encode};
use crate::error::HookError;
use crate::rpc::service::HookRpc;
use crate::store::deliveries::{self, Waiting};

pub(super) async fn redeliver(
    service: &HookRpc,
    request: Request<RedeliverRequest>,
) -> Result<RedeliverResponse, HookError> {
    let access = service.authorize_owner(&request, request.get_ref().owner.as_ref()).await?;
    let key = IdempotencyKey::of(&request, access.user.0, "Redeliver")?;
    let request = request.into_inner();
    let queue = async {
        let now_us = service.clock.now_us();
        let hook = service.store.find(access.owner, HookId(request.hook_id)).await?;
        let uuid = decode::uuid(&request.delivery_id)?;
        let before = deliveries::find(service.store.db(), hook.id, &uuid).await?.ok_or(HookError::DeliveryNotFound)?;
        // One that waits is hurried, and makes none.
        if before.is_finished() {
            service.count_deliveries(&access, hook.id, Waiting::All, 1).await?;
        }
        let mut tx = service.store.db().begin().await?;
        let hook = service.store.lock(&mut tx, access.owner, hook.id).await?;
        if before.is_finished() {
            check_waiting(&mut tx, hook.id, Waiting::All).await?;
        }
        let delivery = deliveries::redeliver(&mut tx, hook.id, &uuid, now_us).await?;
        let delivery = encode::delivery(delivery.ok_or(HookError::DeliveryNotFound)?)?;
        let answer = RedeliverResponse { delivery: Some(delivery) };
        let answer = service.commit(tx, None, key.as_ref(), answer, now_us).await?;
        service.sender.wake();
        Ok(answer)
    };
    once(service.store.db(), key.as_ref(), queue).await
}
