//! The limits in grants: the quota of the owner for operations that store bytes, and the percentage of the limits per hour for operations
//! that are counted.

use ferrite_proto::grant::{ByteQuota, GrantLimits};
use ferrite_proto::id::UserId;
use ferrite_proto::operation::{self, is_write};

use crate::creation_limit::CreationLimit;
use crate::error::RepoError;
use crate::rpc::authorized::Authorized;
use crate::state::AppState;
use crate::store::{OwnerLimits, QuotaRow, Repository};

/// Operations that store bytes for the owner of the repository.
const OPERATIONS_THAT_STORE: [&str; 4] =
    [operation::RECEIVE_PACK, operation::PUT_CONTENTS, operation::DELETE_CONTENTS, operation::CHANGE_FILES];
/// Steps in which the used bytes are told while less than half of a quota is used.
const QUOTA_STEPS: u64 = 1024;

/// Returns the limits for a grant of the operation on a repository.
///
/// # Errors
/// Those of the database.
pub(super) async fn of(
    state: &AppState,
    authorized: &Authorized,
    repository: &Repository,
) -> Result<GrantLimits, RepoError> {
    let mut limits = GrantLimits::default();
    let owner = (UserId(repository.owner_id), repository.owner_is_admin);
    let account = match authorized.identity() {
        Ok(caller) => Some((UserId(caller.user_id), caller.is_admin)),
        // A deploy key counts for the user who added it: else an account would have the limits once more for each of its repositories and
        // organizations. Once that user may not administer the repository, the key counts for the owner: else the user could stop its
        // pushes.
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
        // Most who write own the repository: their quota is read once.
        (Some((id, is_admin)), Some(quota)) if id == owner.0 => CreationLimit::percent_of(is_admin, quota),
        (Some((id, is_admin)), _) => state.creation_limit.rate_percent(id, is_admin).await?,
        (None, _) => None,
    };
    Ok(limits)
}

/// Returns the percentage of the limits per hour that applies to the caller; `None` for 100, and for reads, which are not counted.
///
/// # Errors
/// Those of the database.
pub(super) async fn rate_percent(state: &AppState, authorized: &Authorized) -> Result<Option<u32>, RepoError> {
    match authorized.identity() {
        Ok(caller) if is_write(authorized.operation()) => {
            state.creation_limit.rate_percent(UserId(caller.user_id), caller.is_admin).await
        }
        _ => Ok(None),
    }
}

/// Returns a quota as grants have it; `None` if there is no limit. While less than half of it is used, the used bytes are rounded up, so
/// that the grants for a repository stay equal, and are signed and verified once.
fn byte_quota(row: QuotaRow, site: OwnerLimits) -> Option<ByteQuota> {
    let limit = u64::try_from(row.max_bytes(site)?).ok()?;
    let used = u64::try_from(row.used_bytes()).unwrap_or_default();
    let used = if used < limit / 2 { used.next_multiple_of((limit / QUOTA_STEPS).max(1)) } else { used };
    Some(ByteQuota { used, limit })
}
