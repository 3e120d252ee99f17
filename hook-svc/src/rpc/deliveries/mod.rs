//! The RPCs of `DeliveryService`, one per file.

mod decode;
mod encode;
mod get_delivery;
mod list_deliveries;
mod redeliver;
mod replay_deliveries;
mod test_hook;
#[cfg(test)]
mod tests;

use ferrite_kit::service;
use ferrite_proto::hook::delivery_service_server::DeliveryService;
use ferrite_proto::hook::*;

use super::HookRpc;

service!(DeliveryService for HookRpc {
    list_deliveries(ListDeliveriesRequest) -> ListDeliveriesResponse;
    get_delivery(GetDeliveryRequest) -> GetDeliveryResponse;
    redeliver(RedeliverRequest) -> RedeliverResponse;
    replay_deliveries(ReplayDeliveriesRequest) -> ReplayDeliveriesResponse;
    test_hook(TestHookRequest) -> TestHookResponse;
});
