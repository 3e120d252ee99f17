//! Deliveries of webhooks: the log, repeated deliveries and tests. An extension of this API.

use ferrite_proto::hook::{
    DeliveryStatus, GetDeliveryRequest, ListDeliveriesRequest, RedeliverRequest, ReplayDeliveriesRequest,
    TestHookRequest,
};
use ferrite_proto::operation;

use super::owner::HookOwnerPath;
use crate::api::call::{Authenticated, routes};
use crate::api::issues::{list_headers, value};
use crate::dto::{Delivery, DeliveryWithAttempts, ReplayCount, require};
use crate::http::body::JsonBody;
use crate::http::error::{ApiError, ApiResult};
use crate::http::json;
use crate::http::page::{Page, PageLimits};
use crate::http::path::Params;
use crate::http::query::Query;
use crate::http::routes::{administrator, organization};

const STATUSES: [(&str, DeliveryStatus); 5] = [
    ("pending", DeliveryStatus::Pending),
    ("retrying", DeliveryStatus::Retrying),
    ("succeeded", DeliveryStatus::Succeeded),
    ("exhausted", DeliveryStatus::Exhausted),
    ("cancelled", DeliveryStatus::Cancelled),
];

routes! {
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

async fn list(Authenticated(call): Authenticated, path: HookOwnerPath, params: Params, query: Query) -> ApiResult {
    let access = call.hook_access(&path, operation::LIST_DELIVERIES).await?;
    let page = query.page(PageLimits::EXTENSION_LIST);
    let filters = decode(&query, params.id("id"), page)?;
    let request = ListDeliveriesRequest { owner: access.owner(), ..filters };
    let response = call.clients.deliveries().list_deliveries(access.request(&call, request)).await?.into_inner();
    let deliveries = response.deliveries.into_iter().map(Delivery::new).collect::<Result<Vec<_>, _>>()?;
    let headers = list_headers(&query, page, response.total_count, response.is_partial, &call.links);
    Ok(json::page(deliveries, headers))
}

/// Returns the filters of a query.
///
/// # Errors
/// 422 with every parameter that cannot be read.
fn decode(query: &Query, hook_id: i64, page: Page) -> Result<ListDeliveriesRequest, ApiError> {
    let mut errors = Vec::new();
    let status = value(query.word("status", &STATUSES), &mut errors);
    let (since_time, until_time) = (value(query.time("since"), &mut errors), value(query.time("until"), &mut errors));
    if !errors.is_empty() {
        return Err(ApiError::invalid(errors));
    }
    Ok(ListDeliveriesRequest {
        owner: None,
        hook_id,
        status: status.unwrap_or(DeliveryStatus::Unspecified).into(),
        event: query.filter("event"),
        since_time,
        until_time,
        page: page.number,
        page_size: page.size,
    })
}

async fn get(Authenticated(call): Authenticated, path: HookOwnerPath, params: Params) -> ApiResult {
    let access = call.hook_access(&path, operation::GET_DELIVERY).await?;
    let request =
        GetDeliveryRequest { owner: access.owner(), hook_id: params.id("id"), delivery_id: params.name("delivery") };
    let response = call.clients.deliveries().get_delivery(access.request(&call, request)).await?.into_inner();
    Ok(json::ok(DeliveryWithAttempts::new(require(response.delivery, "delivery")?, response.attempts)?))
}

async fn redeliver(Authenticated(call): Authenticated, path: HookOwnerPath, params: Params) -> ApiResult {
    let access = call.hook_access(&path, operation::REDELIVER).await?;
    let request =
        RedeliverRequest { owner: access.owner(), hook_id: params.id("id"), delivery_id: params.name("delivery") };
    let response = call.clients.deliveries().redeliver(access.request(&call, request)).await?.into_inner();
    Ok(json::accepted(Delivery::new(require(response.delivery, "delivery")?)?))
}

async fn replay(Authenticated(call): Authenticated, path: HookOwnerPath, params: Params, body: JsonBody) -> ApiResult {
    let decode = call.hook_body(&path, operation::REPLAY_DELIVERIES, body, |fields| ReplayDeliveriesRequest {
        owner: None,
        hook_id: params.id("id"),
        from_time: fields.optional_time("from"),
        to_time: fields.optional_time("to"),
        has_new_ids: fields.flag("new_ids"),
    });
    let (access, request) = decode.await?;
    let request = ReplayDeliveriesRequest { owner: access.owner(), ..request };
    let response = call.clients.deliveries().replay_deliveries(access.request(&call, request)).await?.into_inner();
    Ok(json::accepted(ReplayCount { count: response.count }))
}

async fn test(Authenticated(call): Authenticated, path: HookOwnerPath, params: Params) -> ApiResult {
    let access = call.hook_access(&path, operation::TEST_HOOK).await?;
    let request = TestHookRequest { owner: access.owner(), hook_id: params.id("id") };
    let response = call.clients.deliveries().test_hook(access.request(&call, request)).await?.into_inner();
    Ok(json::accepted(Delivery::new(require(response.delivery, "delivery")?)?))
}
