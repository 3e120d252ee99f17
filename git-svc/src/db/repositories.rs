//! The `repositories` table: current and deleted repositories of the stores of this service, with
//! their epochs and journal numbers.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use ferrite_db::{Db, DbError, Tx, args};
use ferrite_proto::id::RepositoryId;
use git_store::types::name::BranchName;
use parking_lot::Mutex;

const FIND: &str = "SELECT store, epoch, last_number, deleted, is_wiki FROM repositories WHERE repository_id = $1";
/// An existing row keeps its epoch and number, so that repeating a creation does not create a
/// second repository.
const PLACE: &str = "INSERT INTO repositories (repository_id, store, epoch, last_number, created_us, deleted, is_wiki) \
     VALUES ($1, $2, $3, 0, $4, $5, $6) \
     ON CONFLICT (repository_id) DO NOTHING";
const RAISE: &str = "UPDATE repositories SET epoch = $2 WHERE repository_id = $1 AND epoch < $2";
const NUMBER_POSTGRES: &str = "UPDATE repositories SET last_number = last_number + 1 WHERE repository_id = $1 AND NOT deleted \
     RETURNING last_number, is_wiki";
/// Two statements sent together, because SQLite would first collect returned rows in a temporary
/// table.
const NUMBER_SQLITE: &str = "UPDATE repositories SET last_number = last_number + 1 WHERE repository_id = $1 AND NOT deleted; \
     SELECT last_number, is_wiki FROM repositories WHERE repository_id = $1 AND NOT deleted";
/// Waits for an open transaction that took a number (PostgreSQL). SQLite has one writer at a time
/// and needs no row lock.
const LOCK_ROW: &str = "SELECT last_number FROM repositories WHERE repository_id = $1 FOR UPDATE";
const READ_ROW: &str = "SELECT last_number FROM repositories WHERE repository_id = $1";
const DELETED: &str = "SELECT repository_id FROM repositories WHERE store = $1 AND deleted ORDER BY repository_id";
const COUNT: &str = "SELECT COUNT(*) FROM repositories WHERE store = $1 AND NOT deleted AND NOT is_wiki";
const DELETE: &str = "UPDATE repositories SET deleted = $2 WHERE repository_id = $1";

const BEGIN_HEAD: &str = "UPDATE repositories SET new_head = $2 WHERE repository_id = $1 AND NOT deleted";
const NEW_HEAD: &str =
    "SELECT new_head FROM repositories WHERE repository_id = $1 AND NOT deleted AND new_head IS NOT NULL";
const WITH_NEW_HEAD: &str = "SELECT repository_id FROM repositories WHERE new_head IS NOT NULL AND store = $1 AND NOT deleted \
     ORDER BY repository_id";
const END_HEAD: &str = "UPDATE repositories SET new_head = NULL WHERE repository_id = $1";

#[derive(Clone, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub(crate) struct RepositoryRow {
    pub(crate) store: String,
    pub(crate) epoch: i64,
    /// Newest journal number; 0 before the first update.
    pub(crate) last_number: i64,
    /// Whether the repository was deleted. Its id is never reused.
    pub(crate) deleted: bool,
    /// Whether this is a wiki. Wikis emit no events.
    pub(crate) is_wiki: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub(crate) struct NextNumber {
    #[sqlx(rename = "last_number")]
    pub(crate) number: i64,
    /// Whether this is a wiki. Wikis emit no events.
    pub(crate) is_wiki: bool,
}

/// How long a large count is cached, because counting reads the whole table.
const MAX_COUNT_AGE: Duration = Duration::from_secs(60);
/// Counts below this are not cached.
const MIN_KEPT_COUNT: i64 = 10_000;

#[derive(Clone, Debug)]
pub(crate) struct RepositoryTable {
    db: Db,
    /// Cached number of repositories, and when they were counted.
    count: Arc<Mutex<Option<(Instant, i64)>>>,
}

impl RepositoryTable {
    pub(crate) fn new(db: Db) -> Self {
        Self { db, count: Arc::default() }
    }

    /// Counts the repositories of a store, without deleted ones and wikis. A large count may be up
    /// to a minute old.
    pub(crate) async fn count(&self, store: &str) -> Result<i64, DbError> {
        let last = *self.count.lock();
        if let Some((counted, count)) = last
            && count >= MIN_KEPT_COUNT
            && counted.elapsed() < MAX_COUNT_AGE
        {
            return Ok(count);
        }
        let (count,): (i64,) = self.db.one(COUNT, &args![store]).await?;
        *self.count.lock() = Some((Instant::now(), count));
        Ok(count)
    }

    /// Returns the row of a repository, even a deleted one.
    pub(crate) async fn find(&self, id: RepositoryId) -> Result<Option<RepositoryRow>, DbError> {
        self.db.lookup(FIND, &args![id]).await
    }

    /// Inserts a repository or wiki unless it has a row. Returns the row.
    pub(crate) async fn place(
        &self,
        id: RepositoryId,
        store: &str,
        epoch: i64,
        is_wiki: bool,
        now_us: i64,
    ) -> Result<RepositoryRow, DbError> {
        let mut tx = self.db.begin().await?;
        tx.execute(PLACE, &args![id, store, epoch, now_us, false, is_wiki]).await?;
        let row = tx.one(FIND, &args![id]).await?;
        tx.commit().await?;
        Ok(row)
    }

    /// Records an epoch if it is newer than the recorded one.
    pub(crate) async fn raise(&self, id: RepositoryId, epoch: i64) -> Result<(), DbError> {
        self.db.execute(RAISE, &args![id, epoch]).await.map(drop)
    }

    /// Marks a repository as deleted. Inserts a row if there is none, so that a creation arriving
    /// late cannot bring it back.
    pub(crate) async fn delete(tx: &mut Tx, id: RepositoryId, store: &str, now_us: i64) -> Result<(), DbError> {
        tx.execute(PLACE, &args![id, store, 0_i64, now_us, true, false]).await?;
        tx.execute(DELETE, &args![id, true]).await.map(drop)
    }

    /// Waits for every transaction that took a number: one whose caller was cancelled may still
    /// commit.
    pub(crate) async fn wait_for_numbers(&self, id: RepositoryId) -> Result<(), DbError> {
        let mut tx = self.db.begin().await?;
        let statement = tx.pick(LOCK_ROW, READ_ROW);
        let _: Option<(i64,)> = tx.optional(statement, &args![id]).await?;
        tx.rollback().await
    }

    pub(crate) async fn deleted(&self, store: &str) -> Result<Vec<RepositoryId>, DbError> {
        let rows: Vec<(i64,)> = self.db.all(DELETED, &args![store]).await?;
        Ok(rows.into_iter().map(|(id,)| RepositoryId(id)).collect())
    }

    /// Records the branch that HEAD is about to point to. Returns `false` if the repository has no
    /// row or was deleted.
    pub(crate) async fn begin_head(&self, id: RepositoryId, branch: &BranchName) -> Result<bool, DbError> {
        Ok(self.db.execute(BEGIN_HEAD, &args![id, branch.as_bytes()]).await? == 1)
    }

    /// Returns the target branch of an unfinished change of HEAD.
    pub(crate) async fn new_head(&self, id: RepositoryId) -> Result<Option<Vec<u8>>, DbError> {
        let row: Option<(Vec<u8>,)> = self.db.optional(NEW_HEAD, &args![id]).await?;
        Ok(row.map(|(name,)| name))
    }

    /// Returns the repositories of a store with an unfinished change of HEAD.
    pub(crate) async fn with_new_head(&self, store: &str) -> Result<Vec<RepositoryId>, DbError> {
        let rows: Vec<(i64,)> = self.db.all(WITH_NEW_HEAD, &args![store]).await?;
        Ok(rows.into_iter().map(|(id,)| RepositoryId(id)).collect())
    }

    pub(crate) async fn end_head(tx: &mut Tx, id: RepositoryId) -> Result<(), DbError> {
        tx.execute(END_HEAD, &args![id]).await.map(drop)
    }

    /// Takes the next journal number of the repository. Returns `None` if the repository has no row
    /// or was deleted.
    pub(crate) async fn next_number(tx: &mut Tx, id: RepositoryId) -> Result<Option<NextNumber>, DbError> {
        tx.optional(tx.pick(NUMBER_POSTGRES, NUMBER_SQLITE), &args![id]).await
    }
}
