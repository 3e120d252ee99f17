//! The bytes that the events of a repository take, with the delivery logs about them: `kept_bytes` of its row.
//!
//! Every transaction that adds or removes events or attempts, or changes what an event takes, changes the sum. It locks the rows of its
//! repositories before it changes rows of events and deliveries, in the order of their ids.
//!
//! Not here: what goes when there are too many (`eviction`).

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use ferrite_db::args;
use ferrite_db::{Db, DbError, Query, Tx};
use ferrite_proto::id::RepositoryId;
use parking_lot::Mutex;
use sqlx_macros::FromRow;
use tokio::sync::Notify;

/// Bytes that count for an event beside its fact and payload: columns and indexes.
pub(crate) const EVENT_BYTES: usize = 512;
/// Bytes that count for a delivery, and for each attempt, beside its texts.
pub(crate) const DELIVERY_BYTES: i64 = 512;
/// What tests of hooks of organizations and of the site count for: they have no repository.
pub(crate) const NO_REPOSITORY: RepositoryId = RepositoryId(0);
/// Growth after which the bounds are looked at, at once.
const WAKE_BYTES: i64 = 4 * 1024 * 1024;
/// Repositories that are kept in memory because they grew.
const MAX_GROWN: usize = 10_000;
/// Rows that one look reads.
const MAX_READ_ROWS: i64 = 200;

const ADD: &str = "UPDATE hook_repositories SET kept_bytes = kept_bytes + $2 WHERE repository_id = $1";
const LOCK_POSTGRES: &str = "SELECT repository_id FROM hook_repositories WHERE repository_id IN ";
const LOCK_END_POSTGRES: &str = " ORDER BY repository_id FOR UPDATE";
const SET_OWNER: &str = "UPDATE hook_repositories SET owner_id = $2 WHERE repository_id = $1 AND owner_id <> $2";

macro_rules! select {
    ($rest:literal) => {
        concat!("SELECT repository_id, owner_id, kept_bytes, is_deleted FROM hook_repositories WHERE ", $rest)
    };
}

const FIND: &str = select!("repository_id IN ");
const NEXT: &str = select!("repository_id > $1 AND kept_bytes > 0 ORDER BY repository_id LIMIT $2");
const LARGEST_OF_OWNER: &str = select!("owner_id = $1 ORDER BY kept_bytes DESC LIMIT 1");
const SUM_OF_OWNER: &str =
    "SELECT CAST(COALESCE(SUM(kept_bytes), 0) AS BIGINT) FROM hook_repositories WHERE owner_id = $1";
const SUM: &str = "SELECT CAST(COALESCE(SUM(kept_bytes), 0) AS BIGINT) FROM hook_repositories";
/// A deleted repository as it was is needed for events that are told later.
const FORGET_SNAPSHOTS: &str = "UPDATE hook_repositories SET snapshot = NULL WHERE repository_id IN \
     (SELECT r.repository_id FROM hook_repositories r WHERE r.snapshot IS NOT NULL AND r.is_deleted \
     AND NOT EXISTS (SELECT 1 FROM events e WHERE e.repository_id = r.repository_id) ORDER BY r.repository_id LIMIT $1) \
     RETURNING repository_id";

/// What is kept of one repository.
#[derive(Clone, Copy, Debug, FromRow)]
pub(crate) struct Kept {
    repository_id: i64,
    /// Zero if it is not known yet.
    pub(crate) owner_id: i64,
    pub(crate) kept_bytes: i64,
    pub(crate) is_deleted: bool,
}

impl Kept {
    pub(crate) fn repository(&self) -> RepositoryId {
        RepositoryId(self.repository_id)
    }
}

/// Repositories whose events grew since they were last looked at, in this process. Clones are one.
#[derive(Clone, Debug, Default)]
pub(crate) struct GrownRepositories(Arc<Grown>);

#[derive(Debug, Default)]
struct Grown {
    growth: Mutex<Growth>,
    notify: Notify,
}

#[derive(Debug, Default)]
struct Growth {
    repositories: HashSet<RepositoryId>,
    bytes: i64,
}

impl GrownRepositories {
    /// Notes that so many bytes are added. Wakes the task that holds the bounds, if many were since it last looked.
    pub(crate) fn add(&self, repository: RepositoryId, bytes: i64) {
        let mut growth = self.0.growth.lock();
        if growth.repositories.len() < MAX_GROWN {
            growth.repositories.insert(repository);
        }
        growth.bytes += bytes;
        if growth.bytes >= WAKE_BYTES {
            self.0.notify.notify_one();
        }
    }

    /// Returns the repositories, which are not returned again unless they grow further.
    pub(crate) fn take(&self) -> Vec<RepositoryId> {
        std::mem::take(&mut *self.0.growth.lock()).repositories.into_iter().collect()
    }

    /// Waits until much was added.
    pub(crate) async fn grown(&self) {
        self.0.notify.notified().await;
    }
}

/// Adds to the bytes of a repository. Its row is locked from then on, at the latest.
///
/// # Errors
/// When the database fails.
pub(crate) async fn add(tx: &mut Tx, repository: RepositoryId, bytes: i64) -> Result<(), DbError> {
    if bytes == 0 { Ok(()) } else { tx.execute_later(ADD, &args![repository, bytes]).await }
}

/// Takes what was removed from the bytes of repositories.
///
/// # Errors
/// When the database fails.
pub(super) async fn subtract(tx: &mut Tx, removed: &BTreeMap<i64, i64>) -> Result<(), DbError> {
    for (repository, bytes) in removed {
        add(tx, RepositoryId(*repository), -bytes).await?;
    }
    Ok(())
}

/// Locks the rows of repositories. A transaction of SQLite has locked everything already.
///
/// # Errors
/// When the database fails.
pub(super) async fn lock(tx: &mut Tx, repositories: &BTreeSet<i64>) -> Result<(), DbError> {
    if tx.pick(false, true) || repositories.is_empty() {
        return Ok(());
    }
    let mut query = Query::new(LOCK_POSTGRES);
    query.bind_list(repositories.iter().copied()).push(LOCK_END_POSTGRES);
    tx.execute(query.sql(), query.args()).await.map(drop)
}

/// Records the account that owns a repository.
///
/// # Errors
/// When the database fails.
pub(crate) async fn set_owner(tx: &mut Tx, repository: RepositoryId, owner_id: i64) -> Result<(), DbError> {
    tx.execute_later(SET_OWNER, &args![repository, owner_id]).await
}

/// Returns what is kept of repositories.
///
/// # Errors
/// When the database fails.
pub(crate) async fn find(db: &Db, repositories: &[RepositoryId]) -> Result<Vec<Kept>, DbError> {
    let mut found = Vec::new();
    for repositories in repositories.chunks(1000) {
        let mut query = Query::new(FIND);
        query.bind_list(repositories.iter().copied());
        found.extend(db.all::<Kept>(query.sql(), query.args()).await?);
    }
    Ok(found)
}

/// Returns what is kept of the repositories after `after` of which something is, by id: a part of them.
///
/// # Errors
/// When the database fails.
pub(crate) async fn after(db: &Db, after: RepositoryId) -> Result<Vec<Kept>, DbError> {
    db.all(NEXT, &args![after, MAX_READ_ROWS]).await
}

/// Returns the bytes that are kept of all repositories of an account, and the repository of which most is.
///
/// # Errors
/// When the database fails.
pub(crate) async fn of_owner(db: &Db, owner_id: i64) -> Result<(i64, Option<Kept>), DbError> {
    let (bytes,): (i64,) = db.one(SUM_OF_OWNER, &args![owner_id]).await?;
    Ok((bytes, db.optional(LARGEST_OF_OWNER, &args![owner_id]).await?))
}

/// Returns the bytes that are kept of all repositories.
///
/// # Errors
/// When the database fails.
pub(crate) async fn total(db: &Db) -> Result<i64, DbError> {
    let (bytes,): (i64,) = db.one(SUM, &[]).await?;
    Ok(bytes)
}

/// Forgets what deleted repositories were like, if no event needs it: a batch. Returns whether there may be more.
///
/// # Errors
/// When the database fails.
pub(crate) async fn forget_snapshots(db: &Db) -> Result<bool, DbError> {
    let rows: Vec<(i64,)> = db.all_relaxed(&[(FORGET_SNAPSHOTS, 1)], &args![MAX_READ_ROWS]).await?;
    Ok(rows.len() as i64 == MAX_READ_ROWS)
}
