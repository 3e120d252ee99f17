//! The RPCs of hook-svc, one a file; here only what they share.

mod create_hook;
mod decode;
mod deliver;
mod list_hooks;

use std::collections::BTreeMap;
use std::sync::Arc;

use ferrite_kit::auth::{Access, Caller};
use ferrite_kit::{Clock, outbox, timestamp};
use ferrite_proto::events::event_sink_server::EventSink;
use ferrite_proto::events::{DeliverRequest, DeliverResponse};
use ferrite_proto::grant::Grant;
use ferrite_proto::hook::hook_service_server::HookService;
use ferrite_proto::hook::{CreateHookRequest, CreateHookResponse, ListHooksRequest, ListHooksResponse};
use ferrite_proto::id::RepositoryId;
use tonic::{Request, Response, Status};

use crate::model::Hook;
use crate::store::HookStore;

/// What every RPC works with.
#[derive(Clone, Debug)]
pub(crate) struct HookRpc {
    pub(crate) store: HookStore,
    pub(crate) access: Access,
    pub(crate) clock: Clock,
}

impl HookRpc {
    /// The caller's grant to do to a repository what it is calling.
    async fn authorize<T>(&self, request: &Request<T>, repository: i64) -> Result<Arc<Grant>, Status> {
        Ok(self.access.authorize(&Caller::of(request), RepositoryId(repository)).await?)
    }
}

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

fn encode(hook: Hook) -> ferrite_proto::hook::Hook {
    let options = [
        ("channel", hook.options.channel),
        ("username", hook.options.username),
        ("icon_url", hook.options.icon_url),
        ("color", hook.options.color),
    ];
    let options: BTreeMap<_, _> =
        options.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
    ferrite_proto::hook::Hook {
        id: hook.id.0,
        repository_id: hook.repository.0,
        r#type: hook.kind.as_str().to_owned(),
        url: hook.url,
        content_type: hook.content_type.as_str().to_owned(),
        options,
        events: hook.events.names().map(str::to_owned).collect(),
        is_active: hook.is_active,
        create_time: Some(timestamp(hook.created_us)),
        update_time: Some(timestamp(hook.updated_us)),
    }
}
