//! The RPCs of `HookService`, one per file.

mod create_hook;
mod decode;
mod delete_hook;
mod encode;
mod get_hook;
mod list_hooks;
mod redact;
#[cfg(test)]
mod tests;
mod update_hook;

use ferrite_kit::db::Tx;
use ferrite_kit::idempotency::IdempotencyKey;
use ferrite_proto::events::Event;
use ferrite_proto::hook::hook_service_server::HookService;
use ferrite_proto::hook::{
    CreateHookRequest, CreateHookResponse, DeleteHookRequest, DeleteHookResponse, GetHookRequest, GetHookResponse,
    ListHooksRequest, ListHooksResponse, UpdateHookRequest, UpdateHookResponse,
};
use prost::Message;
use tonic::{Request, Response, Status};

use super::audit::SUBSCRIBER;
use super::service::HookRpc;
use crate::error::HookError;

#[tonic::async_trait]
impl HookService for HookRpc {
    async fn create_hook(&self, request: Request<CreateHookRequest>) -> Result<Response<CreateHookResponse>, Status> {
        Ok(create_hook::create_hook(self, request).await.map(Response::new)?)
    }

    async fn list_hooks(&self, request: Request<ListHooksRequest>) -> Result<Response<ListHooksResponse>, Status> {
        Ok(list_hooks::list_hooks(self, request).await.map(Response::new)?)
    }

    async fn get_hook(&self, request: Request<GetHookRequest>) -> Result<Response<GetHookResponse>, Status> {
        Ok(get_hook::get_hook(self, request).await.map(Response::new)?)
    }

    async fn update_hook(&self, request: Request<UpdateHookRequest>) -> Result<Response<UpdateHookResponse>, Status> {
        Ok(update_hook::update_hook(self, request).await.map(Response::new)?)
    }

    async fn delete_hook(&self, request: Request<DeleteHookRequest>) -> Result<Response<DeleteHookResponse>, Status> {
        Ok(delete_hook::delete_hook(self, request).await.map(Response::new)?)
    }
}

impl HookRpc {
    /// Commits a write together with `answer` for a request that is repeated with the same key, and waits a moment for the delivery of its
    /// event, so that a client that writes and then reads the audit log finds the change there.
    async fn commit<A: Message>(
        &self,
        mut tx: Tx,
        event: Option<Event>,
        key: Option<&IdempotencyKey>,
        answer: A,
        now_us: i64,
    ) -> Result<A, HookError> {
        if let Some(key) = key {
            key.store(&mut tx, &answer, now_us).await?;
        }
        let flush = event.map(|event| self.relay.flush(&event, &[SUBSCRIBER]));
        tx.commit().await?;
        if let Some(flush) = flush {
            flush.wait().await;
        }
        Ok(answer)
    }
}
