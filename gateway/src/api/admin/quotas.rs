//! Quotas of users and organizations, for administrators of the site.

use ferrite_proto::operation;
use ferrite_proto::repo::{GetQuotaRequest, LimitChange, UpdateQuotaRequest};

use crate::api::access::PermissionCheck;
use crate::api::call::{Authenticated, routes};
use crate::dto::{Quota, require};
use crate::http::body::JsonBody;
use crate::http::error::ApiResult;
use crate::http::fields::FieldReader;
use crate::http::json;
use crate::http::path::Params;

routes! {
    "/api/v1/admin/users/{username}/quota" => get get as operation::GET_QUOTA, patch update as operation::UPDATE_QUOTA;
}

async fn get(Authenticated(call): Authenticated, path: Params) -> ApiResult {
    let request = call.request(GetQuotaRequest { username: path.name("username") });
    let response = call.clients.administration().get_quota(request).await?.into_inner();
    Ok(json::ok(Quota::new(require(response.quota, "quota")?)?))
}

async fn update(Authenticated(call): Authenticated, path: Params, body: JsonBody) -> ApiResult {
    let check = PermissionCheck::of(operation::UPDATE_QUOTA);
    let decode = call.decode_body(check, body, |fields| UpdateQuotaRequest {
        username: path.name("username"),
        repositories: limit(fields, "repositories"),
        organizations: limit(fields, "organizations"),
        bytes: limit(fields, "bytes"),
        rate_percent: limit(fields, "rate_percent"),
    });
    let request = call.request(decode.await?);
    let response = call.clients.administration().update_quota(request).await?.into_inner();
    Ok(json::ok(Quota::new(require(response.quota, "quota")?)?))
}

/// Reads the change of a limit: a number, or null for the limit of the site.
fn limit(fields: &mut FieldReader, name: &str) -> Option<LimitChange> {
    fields.nullable_number(name).map(|limit| LimitChange { limit })
}
