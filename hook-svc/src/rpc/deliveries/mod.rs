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

use ferrite_proto::hook::delivery_service_server::DeliveryService;
use ferrite_proto::hook::{
    GetDeliveryRequest, GetDeliveryResponse, ListDeliveriesRequest, ListDeliveriesResponse, RedeliverRequest,
    RedeliverResponse, ReplayDeliveriesRequest, ReplayDeliveriesResponse, TestHookRequest, TestHookResponse,
};
use tonic::{Request, Response, Status};

use super::service::HookRpc;

#[tonic::async_trait]
impl DeliveryService for HookRpc {
    async fn list_deliveries(
        &self,
        request: Request<ListDeliveriesRequest>,
    ) -> Result<Response<ListDeliveriesResponse>, Status> {
        Ok(list_deliveries::list_deliveries(self, request).await.map(Response::new)?)
    }

    async fn get_delivery(
        &self,
        request: Request<GetDeliveryRequest>,
    ) -> Result<Response<GetDeliveryResponse>, Status> {
        Ok(get_delivery::get_delivery(self, request).await.map(Response::new)?)
    }

    async fn redeliver(&self, request: Request<RedeliverRequest>) -> Result<Response<RedeliverResponse>, Status> {
        Ok(redeliver::redeliver(self, request).await.map(Response::new)?)
    }

    async fn replay_deliveries(
        &self,
        request: Request<ReplayDeliveriesRequest>,
    ) -> Result<Response<ReplayDeliveriesResponse>, Status> {
        Ok(replay_deliveries::replay_deliveries(self, request).await.map(Response::new)?)
    }

    async fn test_hook(&self, request: Request<TestHookRequest>) -> Result<Response<TestHookResponse>, Status> {
        Ok(test_hook::test_hook(self, request).await.map(Response::new)?)
    }
}
