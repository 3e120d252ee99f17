//! Quotas: bytes used by an owner's repositories, including wikis and release files, and the limits
//! that administrators set.
//!
//! The used bytes are a column that changes in the transaction that changes a size. It must be
//! written last, and for several owners in the order of their ids, so that transactions do not
//! deadlock.

use std::collections::BTreeMap;

use ferrite_db::args;
use ferrite_db::{Db, DbError, QueryCache, Tx};
use ferrite_proto::id::{RepositoryId, UserId};

use super::sql::{Locking, locking};
use crate::error::RepoError;

/// The lock is for changing limits.
const FIND: Locking =
    locking!("SELECT used_bytes, max_bytes, rate_percent FROM owner_quotas WHERE owner_id = $1", " FOR NO KEY UPDATE");
const FIND_BY_REPOSITORY: &str = "SELECT q.used_bytes, q.max_bytes, q.rate_percent FROM repositories r \
     JOIN owner_quotas q ON q.owner_id = r.owner_id WHERE r.id = $1";
macro_rules! add {
    () => {
        "INSERT INTO owner_quotas (owner_id, used_bytes) VALUES ($1, $2) ON CONFLICT (owner_id) \
         DO UPDATE SET used_bytes = owner_quotas.used_bytes + excluded.used_bytes"
    };
}
const ADD: &str = add!();
const ADD_RETURNING: &str = concat!(add!(), " RETURNING used_bytes, max_bytes, rate_percent");
const SET_LIMITS: &str = "INSERT INTO owner_quotas (owner_id, used_bytes, max_bytes, rate_percent) VALUES ($1, 0, $2, $3) \
     ON CONFLICT (owner_id) DO UPDATE SET max_bytes = excluded.max_bytes, rate_percent = excluded.rate_percent";
const OWNED: Locking =
    locking!("SELECT repository_limit, organization_limit FROM users WHERE id = $1", " FOR NO KEY UPDATE");
const SET_COUNT_LIMITS: &str = "UPDATE users SET repository_limit = $2, organization_limit = $3 WHERE id = $1";
const OWNER_OF_STORED: &str = "SELECT owner_id FROM repositories WHERE id = $1 UNION ALL \
     SELECT r.owner_id FROM wikis w JOIN repositories r ON r.id = w.repository_id WHERE w.wiki_id = $1";
const UNFINISHED_OWNER: &str = "SELECT owner_id FROM repositories WHERE id = $1 AND state = 'creating'";
/// Counts repositories, finished or not.
pub(super) const COUNT_OWNED: &str = "SELECT COUNT(*) FROM repositories WHERE owner_id = $1";
/// Counts organizations created for a user, whoever owns them now. If the creator is unknown, they
/// count for the owner who joined when they were created, so that being added later does not count.
pub(super) const COUNT_CREATED: &str = "SELECT (SELECT COUNT(*) FROM users WHERE creator_id = $1) \
     + (SELECT COUNT(*) FROM team_members m JOIN teams t ON t.id = m.team_id JOIN users o ON o.id = t.organization_id \
     WHERE m.user_id = $1 AND t.level = 4 AND o.creator_id IS NULL AND m.created_us = o.created_us)";
/// Includes wikis and release files.
const STORED_BYTES: &str = "SELECT r.size_bytes + COALESCE((SELECT w.size_bytes FROM wikis w WHERE w.repository_id = r.id), 0) \
     + CAST(COALESCE((SELECT SUM(a.size_bytes) FROM release_assets a JOIN releases l ON l.id = a.release_id \
     WHERE l.repository_id = r.id), 0) AS BIGINT) FROM repositories r WHERE r.id = $1 AND r.state = 'ready'";
/// Total size of the repositories that the owner's unfinished forks copy.
const COPYING_BYTES: &str = "SELECT CAST(COALESCE(SUM(p.size_bytes), 0) AS BIGINT) FROM repositories r \
     JOIN repositories p ON p.id = r.parent_id WHERE r.owner_id = $1 AND r.state = 'creating'";

/// Accounts whose quota is cached until the database changes.
const MAX_CACHED_QUOTAS: u64 = 10_000;

/// The limits of the site, for accounts without their own. `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OwnerLimits {
    pub(crate) repositories: Option<i64>,
    /// Organizations that one user creates.
    pub(crate) organizations: Option<i64>,
    /// All repositories together.
    pub(crate) bytes: Option<i64>,
}

/// An account's own limits. `None` means the limit of the site, a negative number no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OwnLimits {
    pub(crate) repositories: Option<i64>,
    /// Organizations that the user creates.
    pub(crate) organizations: Option<i64>,
    /// All repositories together.
    pub(crate) bytes: Option<i64>,
    /// Percentage of the hourly limits.
    pub(crate) rate_percent: Option<i64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, sqlx_macros::FromRow)]
pub(crate) struct QuotaRow {
    used_bytes: i64,
    max_bytes: Option<i64>,
    /// Percentage of the hourly limits; negative for no limit.
    pub(crate) rate_percent: Option<i64>,
}

impl QuotaRow {
    pub(crate) fn used_bytes(&self) -> i64 {
        self.used_bytes.max(0)
    }

    /// `None` if there is no limit.
    pub(crate) fn max_bytes(&self, site: OwnerLimits) -> Option<i64> {
        effective(self.max_bytes, site.bytes)
    }

    /// Checks that the account is below its limit and has room for `added` bytes.
    pub(crate) fn check_bytes(&self, site: OwnerLimits, added: i64) -> Result<(), RepoError> {
        let (used, Some(limit)) = (self.used_bytes(), self.max_bytes(site)) else { return Ok(()) };
        if used < limit && added <= limit - used {
            return Ok(());
        }
        Err(storage_quota(used, limit))
    }
}

/// An account's usage and its own limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OwnerQuota {
    pub(crate) repository_count: i64,
    /// Organizations created for it.
    pub(crate) organization_count: i64,
    pub(crate) used_bytes: i64,
    pub(crate) limits: OwnLimits,
}

impl OwnerQuota {
    fn new((repository_count, organization_count): (i64, i64), own: CountLimits, row: QuotaRow) -> Self {
        let (repositories, organizations) = own;
        let limits = OwnLimits { repositories, organizations, bytes: row.max_bytes, rate_percent: row.rate_percent };
        Self { repository_count, organization_count, used_bytes: row.used_bytes(), limits }
    }
}

/// Limits on the number of repositories and of organizations.
type CountLimits = (Option<i64>, Option<i64>);

/// The account's own limit, or the site's. A negative own limit means none.
pub(crate) fn effective(own: Option<i64>, site: Option<i64>) -> Option<i64> {
    own.map_or(site, |limit| (limit >= 0).then_some(limit))
}

/// Checks that an account with `used` repositories can own one more.
pub(super) fn check_count(own: Option<i64>, site: OwnerLimits, used: i64) -> Result<(), RepoError> {
    match effective(own, site.repositories) {
        Some(limit) if used >= limit => {
            metrics::counter!("ferrite_quota_refused_total", "kind" => "repositories").increment(1);
            Err(RepoError::RepositoryLimit { used, limit })
        }
        _ => Ok(()),
    }
}

/// Checks that a user with the limit `own` and `used` organizations can create one more.
pub(super) fn check_organizations(own: Option<i64>, site: OwnerLimits, used: i64) -> Result<(), RepoError> {
    match effective(own, site.organizations) {
        Some(limit) if used >= limit => {
            metrics::counter!("ferrite_quota_refused_total", "kind" => "organizations").increment(1);
            Err(RepoError::OrganizationLimit { used, limit })
        }
        _ => Ok(()),
    }
}

fn storage_quota(used: i64, limit: i64) -> RepoError {
    metrics::counter!("ferrite_quota_refused_total", "kind" => "bytes").increment(1);
    RepoError::StorageQuota { used, limit }
}

/// Changes of owners' usage, to be written together at the end of a transaction.
#[derive(Clone, Debug, Default)]
pub(crate) struct UsageChanges(BTreeMap<i64, i64>);

impl UsageChanges {
    pub(crate) fn add(&mut self, owner: UserId, bytes: i64) {
        *self.0.entry(owner.0).or_default() += bytes;
    }

    /// Writes in the order of the owners' ids.
    pub(crate) async fn write(self, tx: &mut Tx) -> Result<(), DbError> {
        for (owner, bytes) in self.0.into_iter().filter(|(_, bytes)| *bytes != 0) {
            tx.execute_later(ADD, &args![owner, bytes]).await?;
        }
        Ok(())
    }
}

pub(super) async fn find_in(tx: &mut Tx, owner: UserId) -> Result<QuotaRow, DbError> {
    Ok(tx.optional(FIND.plain, &args![owner]).await?.unwrap_or_default())
}

/// Bytes of a locked repository, with its wiki and release files.
pub(super) async fn stored_bytes(tx: &mut Tx, repository: RepositoryId) -> Result<i64, DbError> {
    let row: Option<(i64,)> = tx.optional(STORED_BYTES, &args![repository]).await?;
    Ok(row.map_or(0, |(bytes,)| bytes))
}

/// Checks that the unfinished forks of a locked owner fit into the quota together.
pub(super) async fn check_copies(tx: &mut Tx, owner: UserId, site: OwnerLimits) -> Result<(), RepoError> {
    let (bytes,): (i64,) = tx.one(COPYING_BYTES, &args![owner]).await?;
    find_in(tx, owner).await?.check_bytes(site, bytes)
}

/// Quotas, with the limits of the site.
#[derive(Clone, Debug)]
pub(crate) struct QuotaTable {
    db: Db,
    site: OwnerLimits,
    cache: QueryCache<i64, QuotaRow>,
}

impl QuotaTable {
    pub(crate) fn new(db: Db, site: OwnerLimits) -> Self {
        Self { db, site, cache: QueryCache::new("quotas", MAX_CACHED_QUOTAS) }
    }

    pub(crate) fn site(&self) -> OwnerLimits {
        self.site
    }

    pub(crate) async fn find(&self, owner: UserId) -> Result<QuotaRow, DbError> {
        let query = async { Ok(self.db.optional(FIND.plain, &args![owner]).await?.unwrap_or_default()) };
        self.cache.get_or_query(&self.db, owner.0, query).await
    }

    pub(crate) async fn of_repository(&self, id: RepositoryId) -> Result<QuotaRow, DbError> {
        Ok(self.db.optional(FIND_BY_REPOSITORY, &args![id]).await?.unwrap_or_default())
    }

    /// Returns the owner of a repository (finished or not) or wiki, by its id on the store.
    pub(crate) async fn owner_of_stored(&self, id: RepositoryId) -> Result<Option<UserId>, DbError> {
        let row: Option<(i64,)> = self.db.optional(OWNER_OF_STORED, &args![id]).await?;
        Ok(row.map(|(owner,)| UserId(owner)))
    }

    /// Why the owner of an unfinished repository cannot have it with this size; `None` if it fits
    /// or was removed.
    pub(crate) async fn refusal(&self, tx: &mut Tx, id: RepositoryId, bytes: i64) -> Result<Option<String>, DbError> {
        let Some((owner,)) = tx.optional::<(i64,)>(UNFINISHED_OWNER, &args![id]).await? else { return Ok(None) };
        let checked = find_in(tx, UserId(owner)).await?.check_bytes(self.site, bytes);
        Ok(checked.err().map(|error| error.to_string()))
    }

    /// Adds to the bytes used, as the last change of a transaction. Drop the transaction if this
    /// fails with [`RepoError::StorageQuota`].
    pub(crate) async fn charge(&self, tx: &mut Tx, owner: UserId, bytes: i64) -> Result<(), RepoError> {
        let row: QuotaRow = tx.one(ADD_RETURNING, &args![owner, bytes]).await?;
        match row.max_bytes(self.site) {
            Some(limit) if row.used_bytes() > limit => Err(storage_quota(row.used_bytes() - bytes, limit)),
            _ => Ok(()),
        }
    }

    /// Subtracts from the bytes used, as the last change of a transaction.
    pub(crate) async fn release(&self, tx: &mut Tx, owner: UserId, bytes: i64) -> Result<(), DbError> {
        tx.execute_later(ADD, &args![owner, -bytes]).await
    }

    /// Locks and returns the whole quota of an account; `None` if it was deleted.
    pub(crate) async fn lock(&self, tx: &mut Tx, owner: UserId) -> Result<Option<OwnerQuota>, DbError> {
        let own: Option<CountLimits> = tx.optional(OWNED.sql(tx), &args![owner]).await?;
        let Some(own) = own else { return Ok(None) };
        let (repositories,): (i64,) = tx.one(COUNT_OWNED, &args![owner]).await?;
        let (organizations,): (i64,) = tx.one(COUNT_CREATED, &args![owner]).await?;
        let row: Option<QuotaRow> = tx.optional(FIND.sql(tx), &args![owner]).await?;
        Ok(Some(OwnerQuota::new((repositories, organizations), own, row.unwrap_or_default())))
    }

    /// Returns the whole quota of an account; `None` if it was deleted.
    pub(crate) async fn read(&self, owner: UserId) -> Result<Option<OwnerQuota>, DbError> {
        let own: Option<CountLimits> = self.db.optional(OWNED.plain, &args![owner]).await?;
        let Some(own) = own else { return Ok(None) };
        let (repositories,): (i64,) = self.db.one(COUNT_OWNED, &args![owner]).await?;
        let (organizations,): (i64,) = self.db.one(COUNT_CREATED, &args![owner]).await?;
        Ok(Some(OwnerQuota::new((repositories, organizations), own, self.find(owner).await?)))
    }

    pub(crate) async fn set_limits(&self, tx: &mut Tx, owner: UserId, limits: OwnLimits) -> Result<(), DbError> {
        tx.execute(SET_COUNT_LIMITS, &args![owner, limits.repositories, limits.organizations]).await?;
        tx.execute(SET_LIMITS, &args![owner, limits.bytes, limits.rate_percent]).await.map(drop)
    }
}
