//! Pending transfers of repositories. A transfer expires after a while, and ends when the user who
//! started it no longer owns the repository.

use ferrite_core::page::Page;
use ferrite_db::args;
use ferrite_db::{Db, DbError, Query, Tx};
use ferrite_proto::id::{RepositoryId, UserId};

use super::audit::{Action, Actor, Entry, Target, append};
use super::ownership::owned_by_user;
use super::repositories::FULL_NAME;
use super::sql::or_missing;
use crate::error::RepoError;

macro_rules! waits {
    () => {
        concat!("x.created_us > $2 AND ", owned_by_user!())
    };
}
const FIND: &str = concat!(
    "SELECT x.repository_id, x.new_owner_id, x.user_id, x.created_us FROM repository_transfers x WHERE x.repository_id = $1 AND ",
    waits!()
);
const REMOVE_ENDED: &str = concat!(
    "DELETE FROM repository_transfers AS x WHERE x.repository_id = $1 AND NOT (",
    waits!(),
    ") RETURNING repository_id, created_us"
);
const COUNT_OF_USER: &str = "SELECT COUNT(*) FROM repository_transfers WHERE user_id = $1";
const INSERT: &str = "INSERT INTO repository_transfers (repository_id, new_owner_id, user_id, created_us) VALUES ($1, $2, $3, $4) \
     ON CONFLICT DO NOTHING";
const END: &str = "DELETE FROM repository_transfers WHERE repository_id = $1 AND created_us > $2 \
     RETURNING repository_id, new_owner_id, user_id, created_us";
const END_UNOWNED: &str = concat!(
    "DELETE FROM repository_transfers AS x WHERE x.user_id = $1 AND NOT ",
    owned_by_user!(),
    " RETURNING repository_id"
);
const END_OF_USER: &str = "DELETE FROM repository_transfers WHERE user_id = $1 RETURNING repository_id";
/// Transfers that the sweeper ends per transaction, so that no writer waits long.
const MAX_PURGED_ROWS: i64 = 200;
/// Skips rows that another replica is deleting.
const PURGE_POSTGRES: &str = "DELETE FROM repository_transfers WHERE repository_id IN (SELECT repository_id FROM repository_transfers \
     WHERE created_us <= $1 ORDER BY created_us LIMIT $2 FOR UPDATE SKIP LOCKED) RETURNING repository_id, created_us";
const PURGE_SQLITE: &str = "DELETE FROM repository_transfers WHERE repository_id IN (SELECT repository_id FROM repository_transfers \
     WHERE created_us <= $1 ORDER BY created_us LIMIT $2) RETURNING repository_id, created_us";
const LIST: &str = "SELECT x.repository_id, x.new_owner_id, x.user_id, x.created_us, \
     CASE WHEN x.new_owner_id IN (SELECT id FROM own) THEN 1 ELSE 0 END AS is_received";
const COUNT: &str = "SELECT COUNT(*)";

#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub(crate) struct TransferRow {
    repository_id: i64,
    new_owner_id: i64,
    user_id: i64,
    pub(crate) created_us: i64,
}

impl TransferRow {
    pub(crate) fn repository(&self) -> RepositoryId {
        RepositoryId(self.repository_id)
    }

    pub(crate) fn new_owner(&self) -> UserId {
        UserId(self.new_owner_id)
    }

    pub(crate) fn user(&self) -> UserId {
        UserId(self.user_id)
    }
}

/// A transfer in a user's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub(crate) struct ListedTransfer {
    #[sqlx(flatten)]
    pub(crate) row: TransferRow,
    is_received: i32,
}

impl ListedTransfer {
    /// Whether the user can accept it.
    pub(crate) fn is_received(&self) -> bool {
        self.is_received == 1
    }
}

/// Limits on pending transfers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TransferLimits {
    /// Lifetime of a transfer, in microseconds.
    pub(crate) lifetime_us: i64,
    /// Pending transfers per user who started them.
    pub(crate) per_user: i64,
}

#[derive(Clone, Debug)]
pub(crate) struct TransferTable {
    db: Db,
    limits: TransferLimits,
}

impl TransferTable {
    pub(crate) fn new(db: Db, limits: TransferLimits) -> Self {
        Self { db, limits }
    }

    /// Microseconds since 1970.
    pub(crate) fn expire_us(&self, row: &TransferRow) -> i64 {
        row.created_us.saturating_add(self.limits.lifetime_us)
    }

    /// Transfers started before this have expired.
    fn since_us(&self, now_us: i64) -> i64 {
        now_us.saturating_sub(self.limits.lifetime_us)
    }

    /// The repository's pending transfer.
    pub(crate) async fn find(&self, repository: RepositoryId, now_us: i64) -> Result<Option<TransferRow>, DbError> {
        self.db.optional(FIND, &args![repository, self.since_us(now_us)]).await
    }

    /// Returns a page of the transfers to or from a user and the organizations that the user owns,
    /// oldest first, and the total. `only` limits them to these repositories.
    pub(crate) async fn list(
        &self,
        user: UserId,
        only: Option<&[i64]>,
        now_us: i64,
        page: Page,
    ) -> Result<(Vec<ListedTransfer>, i64), DbError> {
        let select = |columns: &'static str| {
            let mut query = Query::new("WITH own AS (SELECT CAST(");
            query.bind(user).push(" AS BIGINT) AS id UNION SELECT t.organization_id FROM team_members m ");
            query.push("JOIN teams t ON t.id = m.team_id WHERE t.level = 4 AND m.user_id = ").bind(user).push(") ");
            query.push(columns).push(" FROM repository_transfers x JOIN repositories r ON r.id = x.repository_id ");
            query.push("WHERE (x.new_owner_id IN (SELECT id FROM own) OR r.owner_id IN (SELECT id FROM own)) ");
            query.push("AND x.created_us > ").bind(self.since_us(now_us)).push(concat!(" AND ", owned_by_user!()));
            if let Some(only) = only {
                query.push(" AND x.repository_id IN ").bind_list(only.iter().copied());
            }
            query
        };
        let (mut rows, count) = (select(LIST), select(COUNT));
        rows.push(" ORDER BY x.created_us, x.repository_id LIMIT ").bind(page.size());
        rows.push(" OFFSET ").bind(page.offset());
        let (total,): (i64,) = self.db.one(count.sql(), count.args()).await?;
        Ok((self.db.all(rows.sql(), rows.args()).await?, total))
    }

    /// Starts a transfer. Fails if one is already pending, or if the user has too many pending
    /// transfers.
    pub(crate) async fn insert(
        &self,
        tx: &mut Tx,
        repository: RepositoryId,
        new_owner: UserId,
        user: UserId,
        now_us: i64,
    ) -> Result<(), RepoError> {
        let since_us = self.since_us(now_us);
        let ended = tx.all(REMOVE_ENDED, &args![repository, since_us]).await?;
        record_ended(tx, ended, since_us, now_us).await?;
        let (waiting,): (i64,) = tx.one(COUNT_OF_USER, &args![user]).await?;
        if waiting >= self.limits.per_user {
            return Err(RepoError::TransferLimit { limit: self.limits.per_user });
        }
        let inserted = tx.execute(INSERT, &args![repository, new_owner, user, now_us]).await;
        let inserted = inserted.map_err(or_missing(RepoError::UserNotFound))?;
        if inserted == 1 { Ok(()) } else { Err(RepoError::TransferPending) }
    }

    /// Ends and returns the pending transfer; `None` if there is none.
    pub(crate) async fn end(
        &self,
        tx: &mut Tx,
        repository: RepositoryId,
        now_us: i64,
    ) -> Result<Option<TransferRow>, DbError> {
        tx.optional(END, &args![repository, self.since_us(now_us)]).await
    }

    /// Ends the transfers that a user started of repositories the user no longer owns. Returns
    /// those repositories. The transaction must have removed the rights before.
    pub(crate) async fn end_unowned(&self, tx: &mut Tx, user: UserId) -> Result<Vec<RepositoryId>, DbError> {
        repositories(tx.all(END_UNOWNED, &args![user]).await)
    }

    /// Ends all transfers that a user started. Returns their repositories.
    pub(crate) async fn end_of_user(&self, tx: &mut Tx, user: UserId) -> Result<Vec<RepositoryId>, DbError> {
        repositories(tx.all(END_OF_USER, &args![user]).await)
    }

    /// Deletes a batch of expired transfers, oldest first. Returns the number deleted.
    pub(crate) async fn purge(&self, now_us: i64) -> Result<u64, DbError> {
        let since_us = self.since_us(now_us);
        let mut tx = self.db.begin().await?;
        let sql = self.db.pick(PURGE_POSTGRES, PURGE_SQLITE);
        let ended: Vec<(i64, i64)> = tx.all(sql, &args![since_us, MAX_PURGED_ROWS]).await?;
        let count = ended.len() as u64;
        record_ended(&mut tx, ended, since_us, now_us).await?;
        tx.commit().await?;
        Ok(count)
    }
}

/// Records in the audit log that transfers (repository and start time) ended automatically: they
/// expired, or their starter no longer owns the repository.
async fn record_ended(tx: &mut Tx, ended: Vec<(i64, i64)>, since_us: i64, now_us: i64) -> Result<(), DbError> {
    for (id, created_us) in ended {
        let name: Option<(String, String)> = tx.optional(FULL_NAME, &args![id]).await?;
        let name = name.map(|(owner, name)| format!("{owner}/{name}")).unwrap_or_default();
        let reason = if created_us <= since_us { "expired" } else { "starter lost ownership" };
        let (target, details) = (Target::repository_named(RepositoryId(id), name), [("reason", reason.to_owned())]);
        let entry = Entry { actor: &Actor::nobody(), action: Action::TransferCancel, target, details: &details };
        append(tx, entry, now_us).await?;
    }
    Ok(())
}

fn repositories(rows: Result<Vec<(i64,)>, DbError>) -> Result<Vec<RepositoryId>, DbError> {
    Ok(rows?.into_iter().map(|(id,)| RepositoryId(id)).collect())
}
