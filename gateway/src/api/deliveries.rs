//! Deliveries of webhooks: the log, repeated deliveries and tests. An extension of this API.

use axum::extract::State;
use axum::response::Response;
use ferrite_proto::hook::{
    DeliveryStatus, GetDeliveryRequest, ListDeliveriesRequest, RedeliverRequest, ReplayDeliveriesRequest,
    TestHookRequest,
};
use ferrite_proto::operation;

use super::access::PermissionCheck;
use super::hook_owner::HookOwnerPath;
use super::state::ApiState;
use super::tracker::{list_headers, value};
use crate::auth::{Authenticated, RequestContext};
use crate::dto::{Delivery, DeliveryWithAttempts, ReplayCount, require};
use crate::http::body::JsonBody;
use crate::http::error::ApiError;
use crate::http::json;
use crate::http::page::{Page, PageLimits};
use crate::http::path::Params;
use crate::http::query::Query;
use crate::http::routes::{administrator, organization, routes};

const STATUSES: [(&str, DeliveryStatus); 5] = [
    ("pending", DeliveryStatus::Pending),
    ("retrying", DeliveryStatus::Retrying),
    ("succeeded", DeliveryStatus::Succeeded),
    ("exhausted", DeliveryStatus::Exhausted),
    ("cancelled", DeliveryStatus::Cancelled),
];

routes! { ApiState:
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

async fn list(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: HookOwnerPath,
    params: Params,
    query: Query,
) -> Result<Response, ApiError> {
    let access = api.hook_access(&context, &path, operation::LIST_DELIVERIES).await?;
    let page = query.page(PageLimits::DELIVERIES);
    let request = match decode(&query, params.id("id"), page) {
        Ok(request) => ListDeliveriesRequest { owner: access.owner(), ..request },
        Err(error) => return Err(after_permission(&api, &context, &path, error).await),
    };
    let answer = api.clients.deliveries().list_deliveries(access.request(&context, request)).await?.into_inner();
    let deliveries = answer.deliveries.into_iter().map(Delivery::new).collect::<Result<Vec<_>, _>>()?;
    let headers = list_headers(&query, page, answer.total_count, answer.is_partial, &api.links);
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

/// Returns the error of a caller without permission instead of `error`. That of a repository was checked before.
async fn after_permission(api: &ApiState, context: &RequestContext, path: &HookOwnerPath, error: ApiError) -> ApiError {
    let check = PermissionCheck::of(operation::LIST_DELIVERIES);
    match path {
        HookOwnerPath::Repository(_) => error,
        HookOwnerPath::Organization(name) => {
            api.prefer_permission_error(context, check.on_organization(name), error).await
        }
        HookOwnerPath::Site => api.prefer_permission_error(context, check.by_administrator(true), error).await,
    }
}

async fn get(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: HookOwnerPath,
    params: Params,
) -> Result<Response, ApiError> {
    let access = api.hook_access(&context, &path, operation::GET_DELIVERY).await?;
    let request =
        GetDeliveryRequest { owner: access.owner(), hook_id: params.id("id"), delivery_id: params.name("delivery") };
    let answer = api.clients.deliveries().get_delivery(access.request(&context, request)).await?.into_inner();
    Ok(json::ok(DeliveryWithAttempts::new(require(answer.delivery, "delivery")?, answer.attempts)?))
}

async fn redeliver(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: HookOwnerPath,
    params: Params,
) -> Result<Response, ApiError> {
    let access = api.hook_access(&context, &path, operation::REDELIVER).await?;
    let request =
        RedeliverRequest { owner: access.owner(), hook_id: params.id("id"), delivery_id: params.name("delivery") };
    let answer = api.clients.deliveries().redeliver(access.request(&context, request)).await?.into_inner();
    Ok(json::accepted(Delivery::new(require(answer.delivery, "delivery")?)?))
}

async fn replay(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: HookOwnerPath,
    params: Params,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let decode = api.hook_body(&context, &path, operation::REPLAY_DELIVERIES, body, |fields| ReplayDeliveriesRequest {
        owner: None,
        hook_id: params.id("id"),
        from_time: fields.optional_time("from"),
        to_time: fields.optional_time("to"),
        has_new_ids: fields.flag("new_ids"),
    });
    let (access, request) = decode.await?;
    let request = ReplayDeliveriesRequest { owner: access.owner(), ..request };
    let answer = api.clients.deliveries().replay_deliveries(access.request(&context, request)).await?.into_inner();
    Ok(json::accepted(ReplayCount { count: answer.count }))
}

async fn test(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: HookOwnerPath,
    params: Params,
) -> Result<Response, ApiError> {
    let access = api.hook_access(&context, &path, operation::TEST_HOOK).await?;
    let request = TestHookRequest { owner: access.owner(), hook_id: params.id("id") };
    let answer = api.clients.deliveries().test_hook(access.request(&context, request)).await?.into_inner();
    Ok(json::accepted(Delivery::new(require(answer.delivery, "delivery")?)?))
}
