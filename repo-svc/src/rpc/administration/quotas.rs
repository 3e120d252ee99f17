//! Quotas of accounts, which override those of the site.

use ferrite_db::idempotency::{IdempotencyKey, once};
use ferrite_proto::error::FieldViolation;
use ferrite_proto::repo::{
    GetQuotaRequest, GetQuotaResponse, LimitChange, Quota, QuotaUsage, UpdateQuotaRequest, UpdateQuotaResponse,
};
use ferrite_rpc::version::{self, is_conditional};
use tonic::Request;

use crate::error::RepoError;
use crate::model::Violations;
use crate::rpc::authorized::Authorized;
use crate::rpc::{change, lookup, versions};
use crate::state::AppState;
use crate::store::{Action, OwnLimits, OwnerLimits, OwnerQuota, Target, effective};

/// Higher percentages would be no limit at all.
const MAX_RATE_PERCENT: i64 = 1_000_000;

pub(super) async fn get_quota(
    state: &AppState,
    authorized: Authorized,
    request: Request<GetQuotaRequest>,
) -> Result<GetQuotaResponse, RepoError> {
    let owner = lookup::account(state, &request.get_ref().username, authorized.viewer()).await?;
    let quota = state.quotas.read(owner.id).await?.ok_or(RepoError::UserNotFound)?;
    let quota = encode(quota, state.quotas.site());
    version::tell(&versions::quota(quota));
    Ok(GetQuotaResponse { quota: Some(quota) })
}

pub(super) async fn update_quota(
    state: &AppState,
    authorized: Authorized,
    request: Request<UpdateQuotaRequest>,
) -> Result<UpdateQuotaResponse, RepoError> {
    let key = IdempotencyKey::of(&request, authorized.user()?.0, "UpdateQuota")?;
    once(&state.db, key.as_ref(), update(state, &request.into_inner(), &authorized, key.as_ref())).await
}

/// The outer `None` keeps a limit.
struct QuotaChange {
    repositories: Option<Option<i64>>,
    organizations: Option<Option<i64>>,
    bytes: Option<Option<i64>>,
    rate_percent: Option<Option<i64>>,
}

impl QuotaChange {
    fn check(request: &UpdateQuotaRequest) -> Result<Self, RepoError> {
        let mut violations = Violations::default();
        let repositories = violations.take(checked(request.repositories, "repositories", i64::MAX));
        let organizations = violations.take(checked(request.organizations, "organizations", i64::MAX));
        let bytes = violations.take(checked(request.bytes, "bytes", i64::MAX));
        let rate_percent = violations.take(checked(request.rate_percent, "rate_percent", MAX_RATE_PERCENT));
        match (repositories, organizations, bytes, rate_percent) {
            (Some(repositories), Some(organizations), Some(bytes), Some(rate_percent)) => {
                Ok(Self { repositories, organizations, bytes, rate_percent })
            }
            _ => Err(violations.into_error()),
        }
    }

    fn apply(&self, before: OwnLimits) -> OwnLimits {
        OwnLimits {
            repositories: self.repositories.unwrap_or(before.repositories),
            organizations: self.organizations.unwrap_or(before.organizations),
            bytes: self.bytes.unwrap_or(before.bytes),
            rate_percent: self.rate_percent.unwrap_or(before.rate_percent),
        }
    }
}

fn checked(change: Option<LimitChange>, field: &str, max: i64) -> Result<Option<Option<i64>>, FieldViolation> {
    match change.map(|change| change.limit) {
        Some(Some(limit)) if !(-1..=max).contains(&limit) => {
            Err(FieldViolation::new(field, "out_of_range", format!("must be from -1 to {max}")))
        }
        limit => Ok(limit),
    }
}

async fn update(
    state: &AppState,
    request: &UpdateQuotaRequest,
    authorized: &Authorized,
    key: Option<&IdempotencyKey>,
) -> Result<UpdateQuotaResponse, RepoError> {
    let wanted = QuotaChange::check(request)?;
    let owner = lookup::account(state, &request.username, authorized.viewer()).await?;
    let now = state.clock.now_us();
    let mut tx = state.db.begin().await?;
    let quota = state.quotas.lock(&mut tx, owner.id).await?.ok_or(RepoError::UserNotFound)?;
    if is_conditional() {
        tx.require_version(Some(&versions::quota(encode(quota, state.quotas.site()))))?;
    }
    let (before, after) = (quota.limits, wanted.apply(quota.limits));
    if after != before {
        let target = match owner.is_organization {
            true => Target::organization(owner.id, &owner.username),
            false => Target::user(owner.id, &owner.username),
        };
        change::record(&mut tx, authorized, Action::QuotaUpdate, target, &details(before, after), now).await?;
        state.quotas.set_limits(&mut tx, owner.id, after).await?;
    }
    let quota = encode(OwnerQuota { limits: after, ..quota }, state.quotas.site());
    let response = UpdateQuotaResponse { quota: Some(quota) };
    change::commit(tx, key, response, now).await
}

/// The changed limits with their new values; `site` if the site's limit applies again.
fn details(before: OwnLimits, after: OwnLimits) -> Vec<(&'static str, String)> {
    let limits = [
        ("repositories", before.repositories, after.repositories),
        ("organizations", before.organizations, after.organizations),
        ("bytes", before.bytes, after.bytes),
        ("rate_percent", before.rate_percent, after.rate_percent),
    ];
    let changed = limits.into_iter().filter(|(_, before, after)| before != after);
    changed.map(|(name, _, after)| (name, after.map_or_else(|| "site".to_owned(), |limit| limit.to_string()))).collect()
}

/// Encodes a quota with the limits in effect.
fn encode(quota: OwnerQuota, site: OwnerLimits) -> Quota {
    let OwnerQuota { repository_count, organization_count, used_bytes, limits } = quota;
    let usage = |used, own: Option<i64>, site| QuotaUsage { used, limit: effective(own, site), is_own: own.is_some() };
    Quota {
        repositories: Some(usage(repository_count, limits.repositories, site.repositories)),
        organizations: Some(usage(organization_count, limits.organizations, site.organizations)),
        bytes: Some(usage(used_bytes, limits.bytes, site.bytes)),
        rate_percent: limits.rate_percent,
    }
}
