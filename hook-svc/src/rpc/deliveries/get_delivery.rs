//! RPC `GetDelivery`.

use ferrite_proto::hook::{GetDeliveryRequest, GetDeliveryResponse};
use ferrite_proto::id::HookId;
use tonic::Request;

use super::{decode, encode};
use crate::error::HookError;
use crate::rpc::service::HookRpc;
use crate::store::{attempts, deliveries};

pub(super) async fn get_delivery(
    service: &HookRpc,
    request: Request<GetDeliveryRequest>,
) -> Result<GetDeliveryResponse, HookError> {
    let access = service.authorize_owner(&request, request.get_ref().owner.as_ref()).await?;
    let request = request.get_ref();
    let hook = service.store.find(access.owner, HookId(request.hook_id)).await?;
    let db = service.store.db();
    let uuid = decode::uuid(&request.delivery_id)?;
    let delivery = deliveries::find(db, hook.id, &uuid).await?.ok_or(HookError::DeliveryNotFound)?;
    let attempts = attempts::list(db, delivery.id).await?.into_iter().map(encode::attempt).collect();
    Ok(GetDeliveryResponse { delivery: Some(encode::delivery(delivery)?), attempts })
}
