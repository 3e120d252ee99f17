//! RPC `ListDeliveries`.

use ferrite_kit::page::Page;
use ferrite_proto::hook::{ListDeliveriesRequest, ListDeliveriesResponse};
use ferrite_proto::id::HookId;
use tonic::Request;

use super::{decode, encode};
use crate::error::HookError;
use crate::rpc::service::HookRpc;
use crate::store::deliveries;

const MAX_PAGE_SIZE: i32 = 100;

pub(super) async fn list_deliveries(
    service: &HookRpc,
    request: Request<ListDeliveriesRequest>,
) -> Result<ListDeliveriesResponse, HookError> {
    let access = service.authorize_owner(&request, request.get_ref().owner.as_ref()).await?;
    let request = request.get_ref();
    let page = Page::parse(request.page, request.page_size, MAX_PAGE_SIZE).map_err(HookError::Invalid)?;
    let filter = decode::filter(request).map_err(HookError::Invalid)?;
    let hook = service.store.find(access.owner, HookId(request.hook_id)).await?;
    let page = deliveries::list(service.store.db(), hook.id, &filter, page).await?;
    let deliveries: Result<_, _> = page.deliveries.into_iter().map(encode::delivery).collect();
    Ok(ListDeliveriesResponse { deliveries: deliveries?, total_count: page.total_count, is_partial: page.is_partial })
}
