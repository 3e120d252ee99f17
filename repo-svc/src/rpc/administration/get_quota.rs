use ferrite_proto::repo::{GetQuotaRequest, GetQuotaResponse, Quota, QuotaUsage};
use tonic::Request;

use super::super::lookup;
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::{OwnerLimits, OwnerQuota, effective};

pub(super) async fn handle(
    state: &AppState,
    _: Permit,
    request: Request<GetQuotaRequest>,
) -> Result<GetQuotaResponse, RepoError> {
    let owner = lookup::account(state, &request.get_ref().username).await?;
    let quota = state.quotas.read(owner.id).await?.ok_or(RepoError::UserNotFound)?;
    Ok(GetQuotaResponse { quota: Some(encode(quota, state.quotas.site())) })
}

/// Encodes a quota with the limits that hold for it.
pub(super) fn encode(quota: OwnerQuota, site: OwnerLimits) -> Quota {
    let OwnerQuota { repository_count, used_bytes, limits } = quota;
    let usage = |used, own: Option<i64>, site| QuotaUsage { used, limit: effective(own, site), is_own: own.is_some() };
    Quota {
        repositories: Some(usage(repository_count, limits.repositories, site.repositories)),
        bytes: Some(usage(used_bytes, limits.bytes, site.bytes)),
        rate_percent: limits.rate_percent,
    }
}
