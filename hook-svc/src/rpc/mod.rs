//! The RPCs of hook-svc, one per file, and the dispatch to them.
//!
//! Not here: SQL, and the rules of URLs, types and events.

mod create_hook;
mod decode;
mod deliver;
mod encode;
mod list_hooks;
mod service;

use ferrite_kit::outbox;
use ferrite_proto::events::event_sink_server::EventSink;
use ferrite_proto::events::{DeliverRequest, DeliverResponse};
use ferrite_proto::hook::hook_service_server::HookService;
use ferrite_proto::hook::{CreateHookRequest, CreateHookResponse, ListHooksRequest, ListHooksResponse};
use tonic::{Request, Response, Status};

pub(crate) use service::HookRpc;

#[tonic::async_trait]
impl HookService for HookRpc {
    async fn create_hook(&self, request: Request<CreateHookRequest>) -> Result<Response<CreateHookResponse>, Status> {
        create_hook::create_hook(self, request).await.map(Response::new)
    }

    async fn list_hooks(&self, request: Request<ListHooksRequest>) -> Result<Response<ListHooksResponse>, Status> {
        list_hooks::list_hooks(self, request).await.map(Response::new)
    }
}

#[tonic::async_trait]
impl EventSink for HookRpc {
    async fn deliver(&self, request: Request<DeliverRequest>) -> Result<Response<DeliverResponse>, Status> {
        Ok(Response::new(outbox::deliver(self, self.store.db(), self.clock.now_us(), request).await?))
    }
}
