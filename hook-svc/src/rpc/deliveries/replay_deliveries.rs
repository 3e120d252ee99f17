//! RPC `ReplayDeliveries`.

use ferrite_kit::idempotency::{IdempotencyKey, once};
use ferrite_proto::error::FieldViolation;
use ferrite_proto::hook::{ReplayDeliveriesRequest, ReplayDeliveriesResponse};
use ferrite_proto::id::HookId;
use tonic::Request;

use super::{check_waiting, decode};
use crate::error::HookError;
use crate::rpc::service::HookRpc;
use crate::store::deliveries::{self, MAX_REPLAYED, Waiting};

pub(super) async fn replay_deliveries(
    service: &HookRpc,
    request: Request<ReplayDeliveriesRequest>,
) -> Result<ReplayDeliveriesResponse, HookError> {
    let access = service.authorize_owner(&request, request.get_ref().owner.as_ref()).await?;
    let key = IdempotencyKey::of(&request, access.user.0, "ReplayDeliveries")?;
    let request = request.into_inner();
    let queue = async {
        let range = decode::range(request.from_time.as_ref(), request.to_time.as_ref()).map_err(HookError::Invalid)?;
        let now_us = service.clock.now_us();
        let hook = service.store.find(access.owner, HookId(request.hook_id)).await?;
        let found = deliveries::finished_between(service.store.db(), hook.id, range).await?;
        let found = found.ok_or_else(|| too_many(MAX_REPLAYED as u64))?;
        // Waiting does not help where the limit is smaller than the replay.
        if let Some(limit) = service.deliveries.limit_of(access.rate_percent)
            && limit > 0
            && found.len() as u64 > limit
        {
            return Err(too_many(limit));
        }
        if !found.is_empty() {
            service.count_deliveries(&access, hook.id, Waiting::All, found.len()).await?;
        }
        let mut tx = service.store.db().begin().await?;
        deliveries::lock_repositories(&mut tx, &found).await?;
        let hook = service.store.lock(&mut tx, access.owner, hook.id).await?;
        check_waiting(&mut tx, hook.id, Waiting::All).await?;
        let count = deliveries::replay(&mut tx, hook.id, &found, request.has_new_ids, now_us).await?;
        let answer = service.commit(tx, None, key.as_ref(), ReplayDeliveriesResponse { count }, now_us).await?;
        service.sender.wake();
        Ok(answer)
    };
    once(service.store.db(), key.as_ref(), queue).await
}

fn too_many(limit: u64) -> HookError {
    let message = format!("more than {limit} deliveries are between `from` and `to`: choose a shorter time");
    HookError::Invalid(vec![FieldViolation::new("to", "too_many", message)])
}
