//! Quotas of users and organizations, for administrators of the site.

use axum::extract::State;
use axum::response::Response;
use ferrite_proto::repo::{GetQuotaRequest, LimitChange, UpdateQuotaRequest};

use super::access::PermissionCheck;
use super::operation;
use super::state::ApiState;
use crate::auth::Authenticated;
use crate::dto::{Quota, require};
use crate::http::body::JsonBody;
use crate::http::error::ApiError;
use crate::http::fields::FieldReader;
use crate::http::json;
use crate::http::path::Params;
use crate::http::routes::routes;

routes! { ApiState:
    "/api/v1/admin/users/{username}/quota" => get get as operation::GET_QUOTA, patch update as operation::UPDATE_QUOTA;
}

async fn get(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: Params,
) -> Result<Response, ApiError> {
    let request = context.request(GetQuotaRequest { username: path.name("username") });
    let answer = api.clients.administration().get_quota(request).await?.into_inner();
    Ok(json::ok(Quota::new(require(answer.quota, "quota")?)?))
}

async fn update(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: Params,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let check = PermissionCheck::of(operation::UPDATE_QUOTA);
    let decode = api.decode_body(&context, check, body, |fields| UpdateQuotaRequest {
        username: path.name("username"),
        repositories: limit(fields, "repositories"),
        bytes: limit(fields, "bytes"),
        rate_percent: limit(fields, "rate_percent"),
    });
    let request = context.request(decode.await?);
    let answer = api.clients.administration().update_quota(request).await?.into_inner();
    Ok(json::ok(Quota::new(require(answer.quota, "quota")?)?))
}

/// Reads the change of a limit: a number, or null for the limit of the site.
fn limit(fields: &mut FieldReader, name: &str) -> Option<LimitChange> {
    fields.nullable_number(name).map(|limit| LimitChange { limit })
}
