//! Quotas of users and organizations, for administrators of the site.

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
    /// The changes of the limits of an account. What is absent is not changed.
    struct ChangedQuota {
        /// Number of repositories; -1 for no limit, null for that of the site.
        repositories: Nullable<Integer> = 500,
        /// Number of organizations that the user creates; -1 for no limit, null for that of the site.
        organizations: Nullable<Integer> = 10,
        /// Bytes of all repositories together; -1 for no limit, null for that of the site.
        bytes: Nullable<Integer> = 10_737_418_240_i64,
        /// Percentage of the limits per hour, at most 1,000,000; -1 for no limits, null for those of the site.
        rate_percent: Nullable<Integer> = 200,
    }
}

ferrite_api_types::shape! {
    /// Use and limits of an account.
    #[derive(Clone, Copy, Debug, Serialize)]
    struct Quota {
        repositories: QuotaUsage,
        /// May be absent while an installation is updated.
        #[serde(skip_serializing_if = "Option::is_none")]
        organizations: Option<QuotaUsage>,
        bytes: QuotaUsage,
        /// Null if none is set for the account, -1 for no limits.
        rate_percent: Option<i64>,
    }
}

ferrite_api_types::shape! {
    /// One part of a quota.
    #[derive(Clone, Copy, Debug, Serialize)]
    struct QuotaUsage {
        used: i64,
        /// Null for no limit.
        limit: Option<i64>,
        /// True for the limit of the site.
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
