//! Quotas of owners: the bytes that their repositories take, with wikis and files of releases, and the limits that administrators set.
//!
//! The bytes are a column, which changes in the transaction that changes a size. It is written last there, and for several owners in the
//! order of their ids, so that such transactions wait for one another and never in a circle.
//!
//! Not here: the sizes themselves (`repository_sizes`, `release_assets`).

use std::collections::BTreeMap;

use ferrite_db::args;
use ferrite_db::{Db, DbError, QueryCache, Tx};
use ferrite_proto::id::{RepositoryId, UserId};

use super::sql::{Locking, locking};
use crate::error::RepoError;

/// The lock is for a change of limits.
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
/// Counts the repositories of an account, finished or not.
pub(super) const COUNT_OWNED: &str = "SELECT COUNT(*) FROM repositories WHERE owner_id = $1";
/// Counts the organizations that were made for a user, whoever owns them now. Those whose creator is not known count for the owner who joined
/// when they were made: nobody is counted for an organization to which others added it.
pub(super) const COUNT_CREATED: &str = "SELECT (SELECT COUNT(*) FROM users WHERE creator_id = $1) \
     + (SELECT COUNT(*) FROM team_members m JOIN teams t ON t.id = m.team_id JOIN users o ON o.id = t.organization_id \
     WHERE m.user_id = $1 AND t.level = 4 AND o.creator_id IS NULL AND m.created_us = o.created_us)";
/// Everything that is stored of a repository.
const STORED_BYTES: &str = "SELECT r.size_bytes + COALESCE((SELECT w.size_bytes FROM wikis w WHERE w.repository_id = r.id), 0) \
     + CAST(COALESCE((SELECT SUM(a.size_bytes) FROM release_assets a JOIN releases l ON l.id = a.release_id \
     WHERE l.repository_id = r.id), 0) AS BIGINT) FROM repositories r WHERE r.id = $1 AND r.state = 'ready'";
/// The sizes of the repositories that unfinished forks of an owner are copies of.
const COPYING_BYTES: &str = "SELECT CAST(COALESCE(SUM(p.size_bytes), 0) AS BIGINT) FROM repositories r \
     JOIN repositories p ON p.id = r.parent_id WHERE r.owner_id = $1 AND r.state = 'creating'";

/// Accounts whose quota is cached until the database changes.
const MAX_CACHED_QUOTAS: u64 = 10_000;

/// The limits of the site, for accounts without limits of their own. `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OwnerLimits {
    /// Number of repositories.
    pub(crate) repositories: Option<i64>,
    /// Number of organizations that one user creates.
    pub(crate) organizations: Option<i64>,
    /// Bytes of all repositories together.
    pub(crate) bytes: Option<i64>,
}

/// The limits that are set for one account. `None` is the limit of the site, a negative number no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OwnLimits {
    /// Number of repositories.
    pub(crate) repositories: Option<i64>,
    /// Number of organizations that the user creates.
    pub(crate) organizations: Option<i64>,
    /// Bytes of all repositories together.
    pub(crate) bytes: Option<i64>,
    /// Percentage of the limits per hour.
    pub(crate) rate_percent: Option<i64>,
}

/// The bytes that an account uses, with the limits that are set for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, sqlx_macros::FromRow)]
pub(crate) struct QuotaRow {
    used_bytes: i64,
    max_bytes: Option<i64>,
    /// Percentage of the limits per hour; a negative number is no limit.
    pub(crate) rate_percent: Option<i64>,
}

impl QuotaRow {
    /// Returns the bytes that the repositories of the account take.
    pub(crate) fn used_bytes(&self) -> i64 {
        self.used_bytes.max(0)
    }

    /// Returns the bytes that they may take; `None` if there is no limit.
    pub(crate) fn max_bytes(&self, site: OwnerLimits) -> Option<i64> {
        effective(self.max_bytes, site.bytes)
    }

    /// Checks that the account is below its limit, and may store `added` bytes more.
    ///
    /// # Errors
    /// [`RepoError::StorageQuota`].
    pub(crate) fn check_bytes(&self, site: OwnerLimits, added: i64) -> Result<(), RepoError> {
        let (used, Some(limit)) = (self.used_bytes(), self.max_bytes(site)) else { return Ok(()) };
        if used < limit && added <= limit - used {
            return Ok(());
        }
        Err(storage_quota(used, limit))
    }
}

/// The use of an account, with the limits that are set for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OwnerQuota {
    /// Repositories that it owns, finished or not.
    pub(crate) repository_count: i64,
    /// Organizations that were made for it.
    pub(crate) organization_count: i64,
    /// Bytes that the repositories take.
    pub(crate) used_bytes: i64,
    /// The limits.
    pub(crate) limits: OwnLimits,
}

impl OwnerQuota {
    fn new((repository_count, organization_count): (i64, i64), own: CountLimits, row: QuotaRow) -> Self {
        let (repositories, organizations) = own;
        let limits = OwnLimits { repositories, organizations, bytes: row.max_bytes, rate_percent: row.rate_percent };
        Self { repository_count, organization_count, used_bytes: row.used_bytes(), limits }
    }
}

/// The limits of an account on its repositories and on its organizations.
type CountLimits = (Option<i64>, Option<i64>);

/// Returns the limit of an account: its own, or else that of the site. A negative one of its own is none.
pub(crate) fn effective(own: Option<i64>, site: Option<i64>) -> Option<i64> {
    own.map_or(site, |limit| (limit >= 0).then_some(limit))
}

/// Checks that an account that owns `used` repositories may own one more.
///
/// # Errors
/// [`RepoError::RepositoryLimit`].
pub(super) fn check_count(own: Option<i64>, site: OwnerLimits, used: i64) -> Result<(), RepoError> {
    match effective(own, site.repositories) {
        Some(limit) if used >= limit => {
            metrics::counter!("ferrite_quota_refused_total", "kind" => "repositories").increment(1);
            Err(RepoError::RepositoryLimit { used, limit })
        }
        _ => Ok(()),
    }
}

/// Checks that a user with the limit `own` for whom `used` organizations were made may have one more.
///
/// # Errors
/// [`RepoError::OrganizationLimit`].
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

/// Changes of the bytes that owners use, to be written together at the end of a transaction.
#[derive(Clone, Debug, Default)]
pub(crate) struct UsageChanges(BTreeMap<i64, i64>);

impl UsageChanges {
    /// Adds a change of one owner.
    pub(crate) fn add(&mut self, owner: UserId, bytes: i64) {
        *self.0.entry(owner.0).or_default() += bytes;
    }

    /// Writes the changes in the order of the owners' ids.
    pub(crate) async fn write(self, tx: &mut Tx) -> Result<(), DbError> {
        for (owner, bytes) in self.0.into_iter().filter(|(_, bytes)| *bytes != 0) {
            tx.execute_later(ADD, &args![owner, bytes]).await?;
        }
        Ok(())
    }
}

/// Returns the quota of an account within a transaction.
pub(super) async fn find_in(tx: &mut Tx, owner: UserId) -> Result<QuotaRow, DbError> {
    Ok(tx.optional(FIND.plain, &args![owner]).await?.unwrap_or_default())
}

/// Returns the bytes that are stored of a locked repository, with its wiki and the files of its releases.
pub(super) async fn stored_bytes(tx: &mut Tx, repository: RepositoryId) -> Result<i64, DbError> {
    let row: Option<(i64,)> = tx.optional(STORED_BYTES, &args![repository]).await?;
    Ok(row.map_or(0, |(bytes,)| bytes))
}

/// Checks that the unfinished forks of an owner, which the transaction has locked, fit into its quota together.
///
/// # Errors
/// [`RepoError::StorageQuota`], or those of the database.
pub(super) async fn check_copies(tx: &mut Tx, owner: UserId, site: OwnerLimits) -> Result<(), RepoError> {
    let (bytes,): (i64,) = tx.one(COPYING_BYTES, &args![owner]).await?;
    find_in(tx, owner).await?.check_bytes(site, bytes)
}

/// The table of quotas, with the limits of the site.
#[derive(Clone, Debug)]
pub(crate) struct QuotaTable {
    db: Db,
    site: OwnerLimits,
    cache: QueryCache<i64, QuotaRow>,
}

impl QuotaTable {
    /// Creates the table over `db`, for a site with these limits.
    pub(crate) fn new(db: Db, site: OwnerLimits) -> Self {
        Self { db, site, cache: QueryCache::new("quotas", MAX_CACHED_QUOTAS) }
    }

    /// Returns the limits of the site.
    pub(crate) fn site(&self) -> OwnerLimits {
        self.site
    }

    /// Returns the quota of an account.
    pub(crate) async fn find(&self, owner: UserId) -> Result<QuotaRow, DbError> {
        let query = async { Ok(self.db.optional(FIND.plain, &args![owner]).await?.unwrap_or_default()) };
        self.cache.get_or_query(&self.db, owner.0, query).await
    }

    /// Returns the quota of the owner of a repository.
    pub(crate) async fn of_repository(&self, id: RepositoryId) -> Result<QuotaRow, DbError> {
        Ok(self.db.optional(FIND_BY_REPOSITORY, &args![id]).await?.unwrap_or_default())
    }

    /// Returns the owner of a repository, finished or not, or of a wiki, by the id under which the store has it.
    pub(crate) async fn owner_of_stored(&self, id: RepositoryId) -> Result<Option<UserId>, DbError> {
        let row: Option<(i64,)> = self.db.optional(OWNER_OF_STORED, &args![id]).await?;
        Ok(row.map(|(owner,)| UserId(owner)))
    }

    /// Returns the reason for which the owner of an unfinished repository may not have it with this size; `None` if it may, or if the
    /// repository was removed.
    pub(crate) async fn refusal(&self, tx: &mut Tx, id: RepositoryId, bytes: i64) -> Result<Option<String>, DbError> {
        let Some((owner,)) = tx.optional::<(i64,)>(UNFINISHED_OWNER, &args![id]).await? else { return Ok(None) };
        let checked = find_in(tx, UserId(owner)).await?.check_bytes(self.site, bytes);
        Ok(checked.err().map(|error| error.to_string()))
    }

    /// Adds bytes to those that an account uses, as the last change of a transaction.
    ///
    /// # Errors
    /// [`RepoError::StorageQuota`] if the account would use more than it may: the transaction must be dropped then. Those of the
    /// database.
    pub(crate) async fn charge(&self, tx: &mut Tx, owner: UserId, bytes: i64) -> Result<(), RepoError> {
        let row: QuotaRow = tx.one(ADD_RETURNING, &args![owner, bytes]).await?;
        match row.max_bytes(self.site) {
            Some(limit) if row.used_bytes() > limit => Err(storage_quota(row.used_bytes() - bytes, limit)),
            _ => Ok(()),
        }
    }

    /// Takes bytes from those that an account uses, as the last change of a transaction.
    pub(crate) async fn release(&self, tx: &mut Tx, owner: UserId, bytes: i64) -> Result<(), DbError> {
        tx.execute_later(ADD, &args![owner, -bytes]).await
    }

    /// Returns the whole quota of an account and locks it; `None` if the account was deleted.
    pub(crate) async fn lock(&self, tx: &mut Tx, owner: UserId) -> Result<Option<OwnerQuota>, DbError> {
        let own: Option<CountLimits> = tx.optional(OWNED.sql(tx), &args![owner]).await?;
        let Some(own) = own else { return Ok(None) };
        let (repositories,): (i64,) = tx.one(COUNT_OWNED, &args![owner]).await?;
        let (organizations,): (i64,) = tx.one(COUNT_CREATED, &args![owner]).await?;
        let row: Option<QuotaRow> = tx.optional(FIND.sql(tx), &args![owner]).await?;
        Ok(Some(OwnerQuota::new((repositories, organizations), own, row.unwrap_or_default())))
    }

    /// Returns the whole quota of an account; `None` if the account was deleted.
    pub(crate) async fn read(&self, owner: UserId) -> Result<Option<OwnerQuota>, DbError> {
        let own: Option<CountLimits> = self.db.optional(OWNED.plain, &args![owner]).await?;
        let Some(own) = own else { return Ok(None) };
        let (repositories,): (i64,) = self.db.one(COUNT_OWNED, &args![owner]).await?;
        let (organizations,): (i64,) = self.db.one(COUNT_CREATED, &args![owner]).await?;
        Ok(Some(OwnerQuota::new((repositories, organizations), own, self.find(owner).await?)))
    }

    /// Sets the limits of an account, which replace those of the site.
    pub(crate) async fn set_limits(&self, tx: &mut Tx, owner: UserId, limits: OwnLimits) -> Result<(), DbError> {
        tx.execute(SET_COUNT_LIMITS, &args![owner, limits.repositories, limits.organizations]).await?;
        tx.execute(SET_LIMITS, &args![owner, limits.bytes, limits.rate_percent]).await.map(drop)
    }
}
