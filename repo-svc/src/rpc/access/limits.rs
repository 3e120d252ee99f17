//! The limits in grants: the owner's quota for operations that store bytes, and the percentage of
//! the hourly limits for writes.

use ferrite_proto::grant::{ByteQuota, GrantLimits};
use ferrite_proto::id::UserId;
use ferrite_proto::operation::{self, is_write};

use crate::creation_limit::CreationLimit;
use crate::error::RepoError;
use crate::rpc::authorized::Authorized;
use crate::state::AppState;
use crate::store::{OwnerLimits, QuotaRow, Repository};

/// Operations that store bytes for the repository's owner.
const OPERATIONS_THAT_STORE: [&str; 12] = [
    operation::RECEIVE_PACK,
    operation::CREATE_CONTENTS,
    operation::PUT_CONTENTS,
    operation::DELETE_CONTENTS,
    operation::CHANGE_FILES,
    operation::ADD_TAG,
    operation::MERGE_PULL,
    operation::REVERT_MERGE,
    operation::UPDATE_PULL_HEAD,
    operation::CREATE_WIKI_PAGE,
    operation::UPDATE_WIKI_PAGE,
    operation::DELETE_WIKI_PAGE,
];
/// Below half of the quota, the used bytes are rounded up to 1/1024 of it.
const QUOTA_STEPS: u64 = 1024;

pub(super) async fn of(
    state: &AppState,
    authorized: &Authorized,
    repository: &Repository,
) -> Result<GrantLimits, RepoError> {
    let mut limits = GrantLimits::default();
    let owner = (UserId(repository.owner_id), repository.owner_is_admin);
    let account = match authorized.identity() {
        Ok(caller) => Some((UserId(caller.user_id), caller.is_admin)),
        // A deploy key counts against the user who added it: otherwise an account would get the
        // limits again for each of its repositories and organizations. If that user can no longer
        // administer the repository, the key counts against the owner: otherwise the user could
        // block its pushes.
        Err(_) => authorized.deploy_key(repository.id()).map(|added| added.added_by.unwrap_or(owner)),
    };
    if authorized.identity().is_err() {
        limits.account = account.map(|(id, _)| id.0);
    }
    let mut owner_quota = None;
    if OPERATIONS_THAT_STORE.contains(&authorized.operation()) {
        let quota = state.quotas.find(owner.0).await?;
        limits.bytes = byte_quota(quota, state.quotas.site());
        owner_quota = Some(quota);
    }
    limits.rate_percent = match (account.filter(|_| is_write(authorized.operation())), owner_quota) {
        // Most writers own the repository. This avoids reading their quota twice.
        (Some((id, is_admin)), Some(quota)) if id == owner.0 => CreationLimit::percent_of(is_admin, quota),
        (Some((id, is_admin)), _) => state.creation_limit.rate_percent(id, is_admin).await?,
        (None, _) => None,
    };
    Ok(limits)
}

/// The bytes that an owner may still store, rounded as in grants. `None` if there is no limit.
pub(super) async fn left_bytes(state: &AppState, owner: UserId) -> Result<Option<u64>, RepoError> {
    let quota = state.quotas.find(owner).await?;
    Ok(byte_quota(quota, state.quotas.site()).map(ByteQuota::left))
}

/// The percentage of the hourly limits that applies to the caller. `None` for 100 %, and for reads,
/// which do not count.
pub(super) async fn rate_percent(state: &AppState, authorized: &Authorized) -> Result<Option<u32>, RepoError> {
    match authorized.identity() {
        Ok(caller) if is_write(authorized.operation()) => {
            state.creation_limit.rate_percent(UserId(caller.user_id), caller.is_admin).await
        }
        _ => Ok(None),
    }
}

/// The quota for a grant; `None` if there is no limit. Below half of the quota, the used bytes are
/// rounded up, so that grants for a repository stay equal and are signed and verified once.
fn byte_quota(row: QuotaRow, site: OwnerLimits) -> Option<ByteQuota> {
    let limit = u64::try_from(row.max_bytes(site)?).ok()?;
    let used = u64::try_from(row.used_bytes()).unwrap_or_default();
    let used = if used < limit / 2 { used.next_multiple_of((limit / QUOTA_STEPS).max(1)) } else { used };
    Some(ByteQuota { used, limit })
}
