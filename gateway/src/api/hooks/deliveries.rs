//! Deliveries of webhooks: the log, redeliveries and test deliveries. Gogs does not have them.

use std::collections::BTreeMap;

use ferrite_api_types::convert::{MissingField, require, text};
use ferrite_proto::hook::{
    self, DeliveryStatus, GetDeliveryRequest, Header, ListDeliveriesRequest, RedeliverRequest, ReplayDeliveriesRequest,
    TestHookRequest,
};
use ferrite_proto::operation;
use serde::Serialize;

use super::owner::HookOwnerPath;
use crate::api::call::{Authenticated, operations};
use crate::http::body::NoBody;
use crate::http::error::ApiResult;
use crate::http::filters::{QueryOf, Search, filters};
use crate::http::page::{ExtensionList, Total};
use crate::http::path::Params;
use crate::http::request::{Flag, NonEmpty, OrDefault, RequestBody, Time, Word, fields};
use crate::http::response::{Accepted, Json, List};
use crate::http::routes::{administrator, organization};
use crate::http::words::words;

operations! {
    "/api/v1/repos/{owner}/{repo}/hooks/{id}/deliveries" => get list as operation::LIST_DELIVERIES;
    "/api/v1/repos/{owner}/{repo}/hooks/{id}/deliveries/{delivery}" => get get as operation::GET_DELIVERY;
    "/api/v1/repos/{owner}/{repo}/hooks/{id}/deliveries/{delivery}/redeliver" => post redeliver as operation::REDELIVER;
    "/api/v1/repos/{owner}/{repo}/hooks/{id}/replay" => post replay as operation::REPLAY_DELIVERIES;
    "/api/v1/repos/{owner}/{repo}/hooks/{id}/test" => post test as operation::TEST_HOOK;
    "/api/v1/orgs/{org}/hooks/{id}/deliveries" => get list as organization(operation::LIST_DELIVERIES);
    "/api/v1/orgs/{org}/hooks/{id}/deliveries/{delivery}" => get get as organization(operation::GET_DELIVERY);
    "/api/v1/orgs/{org}/hooks/{id}/deliveries/{delivery}/redeliver" =>
        post redeliver as organization(operation::REDELIVER);
    "/api/v1/orgs/{org}/hooks/{id}/replay" => post replay as organization(operation::REPLAY_DELIVERIES);
    "/api/v1/orgs/{org}/hooks/{id}/test" => post test as organization(operation::TEST_HOOK);
    "/api/v1/admin/hooks/{id}/deliveries" => get list as administrator(operation::LIST_DELIVERIES);
    "/api/v1/admin/hooks/{id}/deliveries/{delivery}" => get get as administrator(operation::GET_DELIVERY);
    "/api/v1/admin/hooks/{id}/deliveries/{delivery}/redeliver" => post redeliver as administrator(operation::REDELIVER);
    "/api/v1/admin/hooks/{id}/replay" => post replay as administrator(operation::REPLAY_DELIVERIES);
    "/api/v1/admin/hooks/{id}/test" => post test as administrator(operation::TEST_HOOK);
}

words! {
    /// The states of which deliveries are listed.
    enum ListedStatus: DeliveryStatus {
        "pending" = DeliveryStatus::Pending,
        "retrying" = DeliveryStatus::Retrying,
        "succeeded" = DeliveryStatus::Succeeded,
        "exhausted" = DeliveryStatus::Exhausted,
        "cancelled" = DeliveryStatus::Cancelled,
    }
}

filters! {
    /// Filters of deliveries.
    struct DeliveryFilters {
        /// The state of the deliveries.
        status: Word<ListedStatus> = "succeeded",
        /// Only deliveries created at this time or later.
        since: Time = "2026-01-02T03:04:05Z",
        /// Only deliveries created at this time or earlier.
        until: Time = "2026-01-03T03:04:05Z",
        /// The name of the event.
        event: Search = "push",
    }
}

fields! {
    /// Deliveries to send again.
    struct NewReplay {
        /// Only deliveries created at this time or later.
        from: NonEmpty<Time> = "2026-01-02T03:04:05Z",
        /// Only deliveries created at this time or earlier.
        to: NonEmpty<Time> = "2026-01-03T03:04:05Z",
        /// Whether to send them as new deliveries with new ids.
        new_ids: OrDefault<Flag> = true,
    }
}

ferrite_api_types::word_shape! {
    /// The state of a delivery.
    #[derive(Clone, Copy, Debug)]
    enum Status {
        Pending = "pending",
        Retrying = "retrying",
        Succeeded = "succeeded",
        Exhausted = "exhausted",
        Cancelled = "cancelled",
    }
}

ferrite_api_types::shape! {
    /// A delivery of a webhook.
    #[derive(Clone, Debug, Serialize)]
    pub(super) struct Delivery {
        /// A UUID, the same in all attempts.
        id: String,
        event: String,
        status: Status,
        /// The number of attempts.
        attempts: i32,
        /// The status of the last attempt; null if there was no response.
        response_status: Option<i32>,
        /// The duration of the last attempt; null if there was none.
        duration_ms: Option<i32>,
        created_at: Time,
        /// The time of the next attempt; null if unknown.
        next_attempt_at: Option<Time>,
    }
}

ferrite_api_types::shape! {
    /// A delivery with all its attempts.
    #[derive(Clone, Debug, Serialize)]
    struct DeliveryWithAttempts {
        #[serde(flatten)]
        delivery: Delivery,
        log: Vec<Attempt>,
    }
}

ferrite_api_types::shape! {
    /// A request to the receiver, and its response. Headers with secrets are omitted.
    #[derive(Clone, Debug, Serialize)]
    struct Attempt {
        /// The number of the attempt, from 1.
        number: i32,
        started_at: Time,
        duration_ms: i32,
        request: AttemptRequest,
        response: Option<AttemptResponse>,
        /// Why there is no response; null if there is one.
        error: Option<String>,
    }
}

ferrite_api_types::shape! {
    /// The request of an attempt.
    #[derive(Clone, Debug, Serialize)]
    struct AttemptRequest {
        /// The URL at that time, with `***` in place of its password.
        url: String,
        headers: BTreeMap<String, String>,
        /// The first 64 KiB of the body.
        body: String,
        /// Whether the body was longer.
        truncated: bool,
    }
}

ferrite_api_types::shape! {
    /// The response of an attempt.
    #[derive(Clone, Debug, Serialize)]
    struct AttemptResponse {
        status: i32,
        headers: BTreeMap<String, String>,
        /// The first 64 KiB of the body.
        body: String,
        /// Whether the body was longer or incomplete.
        truncated: bool,
    }
}

ferrite_api_types::shape! {
    /// The number of deliveries that a replay sends.
    #[derive(Clone, Copy, Debug, Serialize)]
    struct ReplayCount {
        count: i64,
    }
}

impl Status {
    fn new(status: DeliveryStatus) -> Result<Self, MissingField> {
        match status {
            DeliveryStatus::Pending => Ok(Self::Pending),
            DeliveryStatus::Retrying => Ok(Self::Retrying),
            DeliveryStatus::Succeeded => Ok(Self::Succeeded),
            DeliveryStatus::Exhausted => Ok(Self::Exhausted),
            DeliveryStatus::Cancelled => Ok(Self::Cancelled),
            DeliveryStatus::Unspecified => Err(MissingField("status")),
        }
    }
}

impl Delivery {
    pub(super) fn new(delivery: hook::Delivery) -> Result<Self, MissingField> {
        let status = Status::new(delivery.status())?;
        let was_tried = delivery.attempt_count > 0;
        Ok(Self {
            id: delivery.id,
            event: delivery.event,
            status,
            attempts: delivery.attempt_count,
            response_status: Some(delivery.response_status).filter(|status| *status > 0),
            duration_ms: Some(delivery.duration_ms).filter(|_| was_tried),
            created_at: Time::new(delivery.create_time, "create_time")?,
            next_attempt_at: Time::optional(delivery.next_attempt_time, "next_attempt_time")?,
        })
    }
}

impl DeliveryWithAttempts {
    fn new(delivery: hook::Delivery, attempts: Vec<hook::Attempt>) -> Result<Self, MissingField> {
        let log = attempts.into_iter().map(Attempt::new).collect::<Result<_, _>>()?;
        Ok(Self { delivery: Delivery::new(delivery)?, log })
    }
}

impl Attempt {
    fn new(attempt: hook::Attempt) -> Result<Self, MissingField> {
        let response = (attempt.response_status > 0).then(|| AttemptResponse {
            status: attempt.response_status,
            headers: headers(attempt.response_headers),
            body: text(&attempt.response_body),
            truncated: attempt.is_response_cut,
        });
        Ok(Self {
            number: attempt.number,
            started_at: Time::new(attempt.start_time, "start_time")?,
            duration_ms: attempt.duration_ms,
            request: AttemptRequest {
                url: attempt.url,
                headers: headers(attempt.request_headers),
                body: text(&attempt.request_body),
                truncated: attempt.is_request_cut,
            },
            response,
            error: Some(attempt.error).filter(|error| !error.is_empty()),
        })
    }
}

/// Returns headers by name. Repeated headers are joined, as in HTTP.
fn headers(headers: Vec<Header>) -> BTreeMap<String, String> {
    let mut by_name: BTreeMap<String, String> = BTreeMap::new();
    for Header { name, value } in headers {
        let values = by_name.entry(name).or_default();
        if !values.is_empty() {
            values.push_str(", ");
        }
        values.push_str(&value);
    }
    by_name
}

async fn list(
    Authenticated(call): Authenticated,
    path: HookOwnerPath,
    params: Params,
    query: ExtensionList,
    filters: QueryOf<DeliveryFilters>,
) -> ApiResult<List<Delivery>> {
    let access = call.hook_access(&path, operation::LIST_DELIVERIES).await?;
    let DeliveryFilters { status, since, until, event } = filters.read()?;
    let request = ListDeliveriesRequest {
        owner: access.owner(),
        hook_id: params.id("id"),
        status: status.unwrap_or(DeliveryStatus::Unspecified).into(),
        event,
        since_time: since,
        until_time: until,
        page: query.page.number,
        page_size: query.page.size,
    };
    let response = call.clients.deliveries().list_deliveries(access.request(&call, request)).await?.into_inner();
    let deliveries = response.deliveries.into_iter().map(Delivery::new).collect::<Result<Vec<_>, _>>()?;
    Ok(query.list(deliveries, Total::counted(response.total_count, response.is_partial), &call.links))
}

async fn get(
    Authenticated(call): Authenticated,
    path: HookOwnerPath,
    params: Params,
) -> ApiResult<Json<DeliveryWithAttempts>> {
    let access = call.hook_access(&path, operation::GET_DELIVERY).await?;
    let request =
        GetDeliveryRequest { owner: access.owner(), hook_id: params.id("id"), delivery_id: params.name("delivery") };
    let response = call.clients.deliveries().get_delivery(access.request(&call, request)).await?.into_inner();
    Ok(Json(DeliveryWithAttempts::new(require(response.delivery, "delivery")?, response.attempts)?))
}

async fn redeliver(
    Authenticated(call): Authenticated,
    path: HookOwnerPath,
    params: Params,
    body: NoBody,
) -> ApiResult<Accepted<Delivery>> {
    let access = call.hook_access(&path, operation::REDELIVER).await?;
    body.read()?;
    let request =
        RedeliverRequest { owner: access.owner(), hook_id: params.id("id"), delivery_id: params.name("delivery") };
    let response = call.clients.deliveries().redeliver(access.request(&call, request)).await?.into_inner();
    Ok(Accepted(Delivery::new(require(response.delivery, "delivery")?)?))
}

async fn replay(
    Authenticated(call): Authenticated,
    path: HookOwnerPath,
    params: Params,
    body: RequestBody<NewReplay>,
) -> ApiResult<Accepted<ReplayCount>> {
    let (access, NewReplay { from, to, new_ids }) = call.hook_body(&path, operation::REPLAY_DELIVERIES, body).await?;
    let request = ReplayDeliveriesRequest {
        owner: access.owner(),
        hook_id: params.id("id"),
        from_time: from,
        to_time: to,
        has_new_ids: new_ids,
    };
    let response = call.clients.deliveries().replay_deliveries(access.request(&call, request)).await?.into_inner();
    Ok(Accepted(ReplayCount { count: response.count }))
}

async fn test(
    Authenticated(call): Authenticated,
    path: HookOwnerPath,
    params: Params,
    body: NoBody,
) -> ApiResult<Accepted<Delivery>> {
    let access = call.hook_access(&path, operation::TEST_HOOK).await?;
    body.read()?;
    let request = TestHookRequest { owner: access.owner(), hook_id: params.id("id") };
    let response = call.clients.deliveries().test_hook(access.request(&call, request)).await?.into_inner();
    Ok(Accepted(Delivery::new(require(response.delivery, "delivery")?)?))
}
