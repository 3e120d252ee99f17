//! RPC `TestHook`.

use ferrite_kit::idempotency::{IdempotencyKey, once};
use ferrite_kit::telemetry;
use ferrite_proto::events::Event;
use ferrite_proto::hook::{TestHookRequest, TestHookResponse};
use ferrite_proto::id::HookId;
use tonic::{Code, Request, Status};
use uuid::Uuid;

use super::{check_waiting, encode};
use crate::dispatch::RenderError;
use crate::error::HookError;
use crate::model::Owner;
use crate::rpc::authorize::HookAccess;
use crate::rpc::service::HookRpc;
use crate::store::deliveries::{self, Waiting};
use crate::store::events::{self, NewEvent, Source};
use crate::store::kept_bytes::NO_REPOSITORY;
use crate::store::lanes::{self, NewDelivery};

pub(super) async fn test_hook(
    service: &HookRpc,
    request: Request<TestHookRequest>,
) -> Result<TestHookResponse, Status> {
    let access = service.authorize_owner(&request, request.get_ref().owner.as_ref()).await?;
    let key = IdempotencyKey::of(&request, access.user.0, "TestHook").map_err(HookError::from)?;
    let hook = service.store.find(access.owner, HookId(request.get_ref().hook_id)).await?;
    let rendered = match access.owner {
        Owner::Repository(repository) => service.renderer.test_payload(repository, access.user.0).await,
        Owner::Organization(_) | Owner::Site => service.renderer.site_test_payload(access.user.0).await,
    };
    let rendered = rendered.map_err(|error| refused(&error))?;
    let work = queue(service, &access, hook.id, rendered, key.as_ref());
    Ok(once(service.store.db(), key.as_ref(), work).await?)
}

async fn queue(
    service: &HookRpc,
    access: &HookAccess,
    hook: HookId,
    (name, payload): (&'static str, String),
    key: Option<&IdempotencyKey>,
) -> Result<TestHookResponse, HookError> {
    let now_us = service.clock.now_us();
    let repository = access.owner.repository().unwrap_or(NO_REPOSITORY);
    // Other deliveries may wait for the test to succeed.
    service.count_deliveries(access, hook, Waiting::Tests, 1).await?;
    let mut tx = service.store.db().begin().await?;
    // In the order of all transactions: before the row of the hook.
    events::lock_repository(&mut tx, repository).await?;
    let hook = service.store.lock(&mut tx, access.owner, hook).await?;
    check_waiting(&mut tx, hook.id, Waiting::Tests).await?;
    // No feed shows it, so its id may come in any order.
    let event = NewEvent {
        uuid: Uuid::new_v4(),
        repository,
        source: Source::Test,
        user: access.user,
        name,
        fact: Event { trace_parent: telemetry::trace_parent(), ..Event::default() },
        payload: Some(payload),
        is_dispatched: true,
        is_in_feed: false,
        happened_us: now_us,
    };
    let ids = events::insert(&mut tx, &[event], now_us).await?;
    let uuid = Uuid::new_v4().to_string();
    for event_id in ids {
        let new = NewDelivery {
            uuid: uuid.clone(),
            hook: hook.id,
            event_id,
            repository,
            source: Source::Test.id(),
            bytes: 0,
        };
        lanes::enqueue_alone(&mut tx, &new, now_us).await?;
    }
    let delivery = deliveries::find_in(&mut tx, hook.id, &uuid).await?.ok_or(HookError::DeliveryNotFound)?;
    let answer = TestHookResponse { delivery: Some(encode::delivery(delivery)?) };
    let answer = service.commit(tx, None, key, answer, now_us).await?;
    service.sender.wake();
    Ok(answer)
}

/// Returns the status of a test without a payload. A service that cannot be reached is told as such, so that the caller tries again.
fn refused(error: &RenderError) -> Status {
    let upstream = match error {
        RenderError::Repo(status) | RenderError::Git(status) => Some(status),
        RenderError::RepositoryUnknown => return HookError::RepositoryDeleted.into(),
        RenderError::Payload(_) | RenderError::Store(_) => None,
    };
    match upstream.map(|status| status.code()) {
        Some(Code::NotFound) => HookError::RepositoryDeleted.into(),
        Some(code @ (Code::Unavailable | Code::DeadlineExceeded | Code::ResourceExhausted)) => {
            Status::new(code, "the payload of the test cannot be made now")
        }
        _ => {
            tracing::error!(error = error as &dyn std::error::Error, "the payload of a test cannot be made");
            Status::internal("internal error")
        }
    }
}
