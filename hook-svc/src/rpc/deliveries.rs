//! The RPCs of the delivery log: lists, redeliveries, replays, and tests of webhooks.

#[cfg(test)]
mod tests;

use ferrite_core::page::Page;
use ferrite_core::{telemetry, timestamp};
use ferrite_db::Tx;
use ferrite_db::idempotency::{IdempotencyKey, once};
use ferrite_listener::service;
use ferrite_proto::error::FieldViolation;
use ferrite_proto::events::Event;
use ferrite_proto::hook::delivery_service_server::DeliveryService;
use ferrite_proto::hook::*;
use ferrite_proto::id::HookId;
use ferrite_rpc::rate_limit::RateExceeded;
use prost_types::Timestamp;
use tonic::{Code, Request, Status};
use uuid::Uuid;

use super::authorize::HookAccess;
use crate::dispatch::RenderError;
use crate::error::HookError;
use crate::model::{HookEvents, Owner};
use crate::state::AppState;
use crate::store::attempts;
use crate::store::deliveries::{self, Filter, MAX_REPLAYED, MAX_WAITING, Status as StoredStatus, Waiting};
use crate::store::events::{self, NewEvent, Source};
use crate::store::kept_bytes::NO_REPOSITORY;
use crate::store::queues::{self, NewDelivery};

/// Event of a test without a commit. Hooks cannot subscribe to it.
const PING_EVENT: &str = "ping";
const MAX_PAGE_SIZE: i32 = 100;

service!(DeliveryService for AppState {
    list_deliveries(ListDeliveriesRequest) -> ListDeliveriesResponse;
    get_delivery(GetDeliveryRequest) -> GetDeliveryResponse;
    redeliver(RedeliverRequest) -> RedeliverResponse;
    replay_deliveries(ReplayDeliveriesRequest) -> ReplayDeliveriesResponse;
    test_hook(TestHookRequest) -> TestHookResponse;
});

async fn list_deliveries(
    state: &AppState,
    request: Request<ListDeliveriesRequest>,
) -> Result<ListDeliveriesResponse, HookError> {
    let access = state.authorize_owner(&request, request.get_ref().owner.as_ref()).await?;
    let request = request.get_ref();
    let page = Page::parse(request.page, request.page_size, MAX_PAGE_SIZE).map_err(HookError::Invalid)?;
    let filter = parse_filter(request).map_err(HookError::Invalid)?;
    let hook = state.store.find(access.owner, HookId(request.hook_id)).await?;
    let page = deliveries::list(state.store.db(), hook.id, &filter, page).await?;
    let deliveries: Result<_, _> = page.deliveries.into_iter().map(encode_delivery).collect();
    Ok(ListDeliveriesResponse { deliveries: deliveries?, total_count: page.total_count, is_partial: page.is_partial })
}

fn parse_filter(request: &ListDeliveriesRequest) -> Result<Filter, Vec<FieldViolation>> {
    let mut violations = Vec::new();
    let status = match DeliveryStatus::try_from(request.status) {
        Ok(DeliveryStatus::Unspecified) => None,
        Ok(DeliveryStatus::Pending) => Some(StoredStatus::Pending),
        Ok(DeliveryStatus::Retrying) => Some(StoredStatus::Retrying),
        Ok(DeliveryStatus::Succeeded) => Some(StoredStatus::Succeeded),
        Ok(DeliveryStatus::Exhausted) => Some(StoredStatus::Exhausted),
        Ok(DeliveryStatus::Cancelled) => Some(StoredStatus::Cancelled),
        Err(_) => {
            violations.push(FieldViolation::new("status", "unknown", "must be a delivery status"));
            None
        }
    };
    let event = Some(request.event.clone()).filter(|event| !event.is_empty());
    if let Some(event) = event.as_deref().filter(|event| *event != PING_EVENT)
        && let Err(violation) = HookEvents::parse(&[event])
    {
        violations.push(FieldViolation::new("event", violation.code, violation.message));
    }
    let since_us = request.since_time.as_ref().map(|time| micros(time, "since", &mut violations));
    let until_us = request.until_time.as_ref().map(|time| end_us(time, "until", &mut violations));
    if violations.is_empty() { Ok(Filter { status, event, since_us, until_us }) } else { Err(violations) }
}

async fn get_delivery(
    state: &AppState,
    request: Request<GetDeliveryRequest>,
) -> Result<GetDeliveryResponse, HookError> {
    let access = state.authorize_owner(&request, request.get_ref().owner.as_ref()).await?;
    let request = request.get_ref();
    let hook = state.store.find(access.owner, HookId(request.hook_id)).await?;
    let db = state.store.db();
    let uuid = parse_uuid(&request.delivery_id)?;
    let delivery = deliveries::find(db, hook.id, &uuid).await?.ok_or(HookError::DeliveryNotFound)?;
    let attempts = attempts::list(db, delivery.id).await?.into_iter().map(encode_attempt).collect();
    Ok(GetDeliveryResponse { delivery: Some(encode_delivery(delivery)?), attempts })
}

fn encode_attempt(row: attempts::Attempt) -> Attempt {
    Attempt {
        number: number(Some(row.number)),
        start_time: Some(timestamp(row.started_us)),
        duration_ms: number(Some(row.duration_ms)),
        url: row.shown_url,
        request_headers: headers(&row.request_headers),
        request_body: row.request_body.unwrap_or_default(),
        is_request_cut: row.is_request_cut,
        response_status: number(row.response_status),
        response_headers: headers(row.response_headers.as_deref().unwrap_or("[]")),
        response_body: row.response_body.unwrap_or_default(),
        is_response_cut: row.is_response_cut,
        error: row.error.unwrap_or_default(),
    }
}

/// Parses the header pairs that the sender logged.
fn headers(json: &str) -> Vec<Header> {
    let pairs: Vec<(String, String)> = serde_json::from_str(json).unwrap_or_else(|error| {
        tracing::error!(%error, "cannot read the headers of an attempt");
        Vec::new()
    });
    pairs.into_iter().map(|(name, value)| Header { name, value }).collect()
}

async fn redeliver(state: &AppState, request: Request<RedeliverRequest>) -> Result<RedeliverResponse, HookError> {
    let access = state.authorize_owner(&request, request.get_ref().owner.as_ref()).await?;
    let key = IdempotencyKey::of(&request, access.user.0, "Redeliver")?;
    let request = request.into_inner();
    let queue = async {
        let now_us = state.clock.now_us();
        let hook = state.store.find(access.owner, HookId(request.hook_id)).await?;
        let uuid = parse_uuid(&request.delivery_id)?;
        let before = deliveries::find(state.store.db(), hook.id, &uuid).await?.ok_or(HookError::DeliveryNotFound)?;
        // A waiting delivery is only hurried, which does not count.
        if before.is_finished() {
            state.count_deliveries(&access, hook.id, Waiting::All, 1).await?;
        }
        let mut tx = state.store.db().begin().await?;
        let hook = state.store.lock(&mut tx, access.owner, hook.id).await?;
        if before.is_finished() {
            check_waiting(&mut tx, hook.id, Waiting::All).await?;
        }
        let delivery = deliveries::redeliver(&mut tx, hook.id, &uuid, now_us).await?;
        let delivery = encode_delivery(delivery.ok_or(HookError::DeliveryNotFound)?)?;
        let response = RedeliverResponse { delivery: Some(delivery) };
        let response = state.commit(tx, None, key.as_ref(), response, now_us).await?;
        state.sender.wake();
        Ok(response)
    };
    once(state.store.db(), key.as_ref(), queue).await
}

async fn replay_deliveries(
    state: &AppState,
    request: Request<ReplayDeliveriesRequest>,
) -> Result<ReplayDeliveriesResponse, HookError> {
    let access = state.authorize_owner(&request, request.get_ref().owner.as_ref()).await?;
    let key = IdempotencyKey::of(&request, access.user.0, "ReplayDeliveries")?;
    let request = request.into_inner();
    let queue = async {
        let range = parse_range(request.from_time.as_ref(), request.to_time.as_ref()).map_err(HookError::Invalid)?;
        let now_us = state.clock.now_us();
        let hook = state.store.find(access.owner, HookId(request.hook_id)).await?;
        let found = deliveries::finished_between(state.store.db(), hook.id, range).await?;
        let found = found.ok_or_else(|| too_many(MAX_REPLAYED as u64))?;
        // A replay larger than the hourly limit can never succeed.
        if let Some(limit) = state.deliveries.limit_of(access.rate_percent)
            && limit > 0
            && found.len() as u64 > limit
        {
            return Err(too_many(limit));
        }
        if !found.is_empty() {
            state.count_deliveries(&access, hook.id, Waiting::All, found.len()).await?;
        }
        let mut tx = state.store.db().begin().await?;
        deliveries::lock_repositories(&mut tx, &found).await?;
        let hook = state.store.lock(&mut tx, access.owner, hook.id).await?;
        check_waiting(&mut tx, hook.id, Waiting::All).await?;
        let count = deliveries::replay(&mut tx, hook.id, &found, request.has_new_ids, now_us).await?;
        let response = state.commit(tx, None, key.as_ref(), ReplayDeliveriesResponse { count }, now_us).await?;
        state.sender.wake();
        Ok(response)
    };
    once(state.store.db(), key.as_ref(), queue).await
}

fn parse_range(from: Option<&Timestamp>, to: Option<&Timestamp>) -> Result<(i64, i64), Vec<FieldViolation>> {
    let mut violations = Vec::new();
    for (time, field) in [(from, "from"), (to, "to")] {
        if time.is_none() {
            violations.push(FieldViolation::new(field, "required", "is required"));
        }
    }
    let from_us = from.map_or(0, |time| micros(time, "from", &mut violations));
    let to_us = to.map_or(0, |time| end_us(time, "to", &mut violations));
    if violations.is_empty() && from_us > to_us {
        violations.push(FieldViolation::new("to", "invalid", "must not be before `from`"));
    }
    if violations.is_empty() { Ok((from_us, to_us)) } else { Err(violations) }
}

fn too_many(limit: u64) -> HookError {
    let message = format!("more than {limit} deliveries in this period; choose a shorter one");
    HookError::Invalid(vec![FieldViolation::new("to", "too_many", message)])
}

async fn test_hook(state: &AppState, request: Request<TestHookRequest>) -> Result<TestHookResponse, Status> {
    let access = state.authorize_owner(&request, request.get_ref().owner.as_ref()).await?;
    let key = IdempotencyKey::of(&request, access.user.0, "TestHook").map_err(HookError::from)?;
    let hook = state.store.find(access.owner, HookId(request.get_ref().hook_id)).await?;
    let rendered = match access.owner {
        Owner::Repository(repository) => state.renderer.test_payload(repository, access.user.0).await,
        Owner::Organization(_) | Owner::Site => state.renderer.site_test_payload(access.user.0).await,
    };
    let rendered = rendered.map_err(|error| refused(&error))?;
    let work = queue_test(state, &access, hook.id, rendered, key.as_ref());
    Ok(once(state.store.db(), key.as_ref(), work).await?)
}

async fn queue_test(
    state: &AppState,
    access: &HookAccess,
    hook: HookId,
    (name, payload): (&'static str, String),
    key: Option<&IdempotencyKey>,
) -> Result<TestHookResponse, HookError> {
    let now_us = state.clock.now_us();
    let repository = access.owner.repository().unwrap_or(NO_REPOSITORY);
    // Only waiting tests count: other deliveries may be waiting for this test to succeed.
    state.count_deliveries(access, hook, Waiting::Tests, 1).await?;
    let mut tx = state.store.db().begin().await?;
    // All transactions lock the repository before the hook.
    events::lock_repository(&mut tx, repository).await?;
    let hook = state.store.lock(&mut tx, access.owner, hook).await?;
    check_waiting(&mut tx, hook.id, Waiting::Tests).await?;
    // Feeds do not show it, so its id may be out of order.
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
        queues::enqueue_alone(&mut tx, &new, now_us).await?;
    }
    let delivery = deliveries::find_in(&mut tx, hook.id, &uuid).await?.ok_or(HookError::DeliveryNotFound)?;
    let response = TestHookResponse { delivery: Some(encode_delivery(delivery)?) };
    let response = state.commit(tx, None, key, response, now_us).await?;
    state.sender.wake();
    Ok(response)
}

/// Returns the status of a test whose payload cannot be rendered. Keeps retryable codes of an
/// upstream service, so that the caller retries.
fn refused(error: &RenderError) -> Status {
    let upstream = match error {
        RenderError::Repo(status) | RenderError::Git(status) => Some(status),
        RenderError::RepositoryUnknown => return HookError::RepositoryDeleted.into(),
        RenderError::Payload(_) | RenderError::Store(_) => None,
    };
    match upstream.map(|status| status.code()) {
        Some(Code::NotFound) => HookError::RepositoryDeleted.into(),
        Some(code @ (Code::Unavailable | Code::DeadlineExceeded | Code::ResourceExhausted)) => {
            Status::new(code, "the payload of the test is temporarily unavailable")
        }
        _ => {
            tracing::error!(error = error as &dyn std::error::Error, "cannot render the payload of a test");
            Status::internal("internal error")
        }
    }
}

impl AppState {
    /// Counts requested deliveries against the hourly limit, if the hook has room for them. Call it
    /// before the transaction that queues them, because Redis may be slow. A request without room
    /// counts nothing, unless others fill the room at the same time.
    async fn count_deliveries(
        &self,
        access: &HookAccess,
        hook: HookId,
        which: Waiting,
        count: usize,
    ) -> Result<(), HookError> {
        // Count the write first: if it is refused, no deliveries count.
        self.store.db().count_write().await?;
        has_room(deliveries::waiting(self.store.db(), hook, which).await?)?;
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        let counted = self.deliveries.count(access.user.0, count, access.rate_percent).await;
        counted.map_err(|RateExceeded { limit, retry_after, .. }| HookError::HourlyLimit {
            what: "deliveries",
            limit,
            retry_after,
        })
    }
}

/// Checks again that the hook has room, in a transaction that has locked the hook's row.
async fn check_waiting(tx: &mut Tx, hook: HookId, which: Waiting) -> Result<(), HookError> {
    has_room(deliveries::waiting_in(tx, hook, which).await?)
}

fn has_room(waiting: i64) -> Result<(), HookError> {
    if waiting > MAX_WAITING { Err(HookError::TooManyWaiting { limit: MAX_WAITING }) } else { Ok(()) }
}

/// Returns the UUID in its stored form.
fn parse_uuid(text: &str) -> Result<String, HookError> {
    Uuid::try_parse(text).map(|uuid| uuid.to_string()).map_err(|_| HookError::DeliveryNotFound)
}

/// Returns the last microsecond of `time`. Responses omit fractions, so a time without one means
/// the whole second.
fn end_us(time: &Timestamp, field: &str, violations: &mut Vec<FieldViolation>) -> i64 {
    let begin_us = micros(time, field, violations);
    if time.nanos == 0 { begin_us.saturating_add(999_999) } else { begin_us }
}

fn micros(time: &Timestamp, field: &str, violations: &mut Vec<FieldViolation>) -> i64 {
    let micros = time.seconds.checked_mul(1_000_000);
    let micros = micros.and_then(|micros| micros.checked_add(i64::from(time.nanos) / 1000));
    micros.unwrap_or_else(|| {
        violations.push(FieldViolation::new(field, "invalid", "must be a valid time"));
        0
    })
}

pub(super) fn encode_delivery(row: deliveries::Delivery) -> Result<Delivery, HookError> {
    let status =
        StoredStatus::from_column(row.status).ok_or(HookError::Unreadable { id: row.hook_id, column: "status" })?;
    let status = match status {
        StoredStatus::Pending => DeliveryStatus::Pending,
        StoredStatus::Retrying => DeliveryStatus::Retrying,
        StoredStatus::Succeeded => DeliveryStatus::Succeeded,
        StoredStatus::Exhausted => DeliveryStatus::Exhausted,
        StoredStatus::Cancelled => DeliveryStatus::Cancelled,
    };
    Ok(Delivery {
        id: row.uuid,
        hook_id: row.hook_id,
        event: row.event,
        status: status.into(),
        attempt_count: number(Some(row.attempts)),
        response_status: number(row.response_status),
        duration_ms: number(row.duration_ms),
        repository_id: row.repository_id,
        create_time: Some(timestamp(row.created_us)),
        next_attempt_time: row.next_attempt_us.map(timestamp),
        finish_time: row.finished_us.map(timestamp),
    })
}

fn number(value: Option<i64>) -> i32 {
    i32::try_from(value.unwrap_or(0)).unwrap_or(i32::MAX)
}
