use ferrite_api_types::convert::{MissingField, require};
use ferrite_proto::operation;
use ferrite_proto::repo::{self, GetQuotaRequest, LimitChange, UpdateQuotaRequest};
use serde::Serialize;

use crate::api::access::PermissionCheck;
use crate::api::call::{Authenticated, operations};
use crate::http::error::ApiResult;
use crate::http::path::Params;
use crate::http::request::{Integer, Nullable, RequestBody, fields};
use crate::http::response::Json;

operations! {
    "/api/v1/admin/users/{username}/quota" => get get as operation::GET_QUOTA, patch update as operation::UPDATE_QUOTA;
}

fields! {
    /// Changes of an account's limits. Absent fields stay unchanged.
    struct ChangedQuota {
        /// The maximum number of repositories; -1 for no limit, null for the site's default.
        repositories: Nullable<Integer> = 500,
        /// The maximum number of organizations that the user creates; -1 for no limit, null for the
        /// site's default.
        organizations: Nullable<Integer> = 10,
        /// The maximum size of all repositories together, in bytes; -1 for no limit, null for the
        /// site's default.
        bytes: Nullable<Integer> = 10_737_418_240_i64,
        /// The hourly limits in percent of the standard ones, at most 1,000,000; -1 for no limits,
        /// null for the site's default.
        rate_percent: Nullable<Integer> = 200,
    }
}

ferrite_api_types::shape! {
    /// Usage and limits of an account.
    #[derive(Clone, Copy, Debug, Serialize)]
    struct Quota {
        repositories: QuotaUsage,
        /// Can be absent during an upgrade of the installation.
        #[serde(skip_serializing_if = "Option::is_none")]
        organizations: Option<QuotaUsage>,
        bytes: QuotaUsage,
        /// The hourly limits in percent of the standard ones. Null if none are set for the account,
        /// -1 for no limits.
        rate_percent: Option<i64>,
    }
}

ferrite_api_types::shape! {
    /// Usage and limit of one resource.
    #[derive(Clone, Copy, Debug, Serialize)]
    struct QuotaUsage {
        used: i64,
        /// The limit; null for none.
        limit: Option<i64>,
        /// Whether this is the site's default.
        is_default: bool,
    }
}

impl Quota {
    fn new(quota: repo::Quota) -> Result<Self, MissingField> {
        Ok(Self {
            repositories: usage(require(quota.repositories, "repositories")?),
            organizations: quota.organizations.map(usage),
            bytes: usage(require(quota.bytes, "bytes")?),
            rate_percent: quota.rate_percent,
        })
    }
}

fn usage(usage: repo::QuotaUsage) -> QuotaUsage {
    QuotaUsage { used: usage.used, limit: usage.limit, is_default: !usage.is_own }
}

async fn get(Authenticated(call): Authenticated, path: Params) -> ApiResult<Json<Quota>> {
    let request = call.request(GetQuotaRequest { username: path.name("username") });
    let response = call.clients.administration().get_quota(request).await?.into_inner();
    Ok(Json(Quota::new(require(response.quota, "quota")?)?))
}

async fn update(
    Authenticated(call): Authenticated,
    path: Params,
    body: RequestBody<ChangedQuota>,
) -> ApiResult<Json<Quota>> {
    let check = PermissionCheck::of(operation::UPDATE_QUOTA);
    let ChangedQuota { repositories, organizations, bytes, rate_percent } = call.checked_body(check, body).await?;
    let change = |limit| LimitChange { limit };
    let request = call.request(UpdateQuotaRequest {
        username: path.name("username"),
        repositories: repositories.map(change),
        organizations: organizations.map(change),
        bytes: bytes.map(change),
        rate_percent: rate_percent.map(change),
    });
    let response = call.clients.administration().update_quota(request).await?.into_inner();
    Ok(Json(Quota::new(require(response.quota, "quota")?)?))
}
