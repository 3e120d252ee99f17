//! Counts the bytes that a repository's events and their delivery logs take, in the column
//! `kept_bytes`.
//!
//! Every transaction that adds, removes or resizes events or attempts updates the sum. It first
//! locks the rows of its repositories in the order of their ids, then changes rows of events and
//! deliveries.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use ferrite_db::args;
use ferrite_db::{Db, DbError, Query, Tx};
use ferrite_proto::id::RepositoryId;
use parking_lot::Mutex;
use sqlx_macros::FromRow;
use tokio::sync::Notify;

/// Counted per event in addition to its fact and payload, for columns and indexes.
pub(crate) const EVENT_BYTES: usize = 512;
/// Counted per delivery and per attempt in addition to their texts.
pub(crate) const DELIVERY_BYTES: i64 = 512;
/// Tests of hooks of organizations and of the site count here, because they have no repository.
pub(crate) const NO_REPOSITORY: RepositoryId = RepositoryId(0);
/// Growth that triggers an immediate check of the size limits.
const WAKE_BYTES: i64 = 4 * 1024 * 1024;
/// Grown repositories to remember.
const MAX_GROWN: usize = 10_000;
/// Rows per query.
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
/// Later events may still need the last state of a deleted repository.
const FORGET_SNAPSHOTS: &str = "UPDATE hook_repositories SET snapshot = NULL WHERE repository_id IN \
     (SELECT r.repository_id FROM hook_repositories r WHERE r.snapshot IS NOT NULL AND r.is_deleted \
     AND NOT EXISTS (SELECT 1 FROM events e WHERE e.repository_id = r.repository_id) ORDER BY r.repository_id LIMIT $1) \
     RETURNING repository_id";

/// The bytes kept for one repository.
#[derive(Clone, Copy, Debug, FromRow)]
pub(crate) struct Kept {
    repository_id: i64,
    /// Zero until it is known.
    pub(crate) owner_id: i64,
    pub(crate) kept_bytes: i64,
    pub(crate) is_deleted: bool,
}

impl Kept {
    pub(crate) fn repository(&self) -> RepositoryId {
        RepositoryId(self.repository_id)
    }
}

/// Repositories whose events grew in this process since the last check. Clones share the list.
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
    /// Records growth. Wakes the retention task once enough has been added since its last check.
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

    /// Returns the grown repositories and forgets them.
    pub(crate) fn take(&self) -> Vec<RepositoryId> {
        std::mem::take(&mut *self.0.growth.lock()).repositories.into_iter().collect()
    }

    /// Waits until [`GrownRepositories::add`] wakes the retention task.
    pub(crate) async fn grown(&self) {
        self.0.notify.notified().await;
    }
}

/// Adds to the bytes of a repository. This locks its row.
pub(crate) async fn add(tx: &mut Tx, repository: RepositoryId, bytes: i64) -> Result<(), DbError> {
    if bytes == 0 { Ok(()) } else { tx.execute_later(ADD, &args![repository, bytes]).await }
}

/// Subtracts removed bytes from repositories.
pub(super) async fn subtract(tx: &mut Tx, removed: &BTreeMap<i64, i64>) -> Result<(), DbError> {
    for (repository, bytes) in removed {
        add(tx, RepositoryId(*repository), -bytes).await?;
    }
    Ok(())
}

/// Locks the rows of repositories. On SQLite, the transaction already excludes other writers.
pub(super) async fn lock(tx: &mut Tx, repositories: &BTreeSet<i64>) -> Result<(), DbError> {
    if tx.pick(false, true) || repositories.is_empty() {
        return Ok(());
    }
    let mut query = Query::new(LOCK_POSTGRES);
    query.bind_list(repositories.iter().copied()).push(LOCK_END_POSTGRES);
    tx.execute(query.sql(), query.args()).await.map(drop)
}

pub(crate) async fn set_owner(tx: &mut Tx, repository: RepositoryId, owner_id: i64) -> Result<(), DbError> {
    tx.execute_later(SET_OWNER, &args![repository, owner_id]).await
}

pub(crate) async fn find(db: &Db, repositories: &[RepositoryId]) -> Result<Vec<Kept>, DbError> {
    let mut found = Vec::new();
    for repositories in repositories.chunks(1000) {
        let mut query = Query::new(FIND);
        query.bind_list(repositories.iter().copied());
        found.extend(db.all::<Kept>(query.sql(), query.args()).await?);
    }
    Ok(found)
}

/// Returns some of the repositories after `after` that keep anything, by id.
pub(crate) async fn after(db: &Db, after: RepositoryId) -> Result<Vec<Kept>, DbError> {
    db.all(NEXT, &args![after, MAX_READ_ROWS]).await
}

/// Returns the bytes kept for all repositories of an account, and its largest repository.
pub(crate) async fn of_owner(db: &Db, owner_id: i64) -> Result<(i64, Option<Kept>), DbError> {
    let (bytes,): (i64,) = db.one(SUM_OF_OWNER, &args![owner_id]).await?;
    Ok((bytes, db.optional(LARGEST_OF_OWNER, &args![owner_id]).await?))
}

/// Returns the bytes kept for all repositories.
pub(crate) async fn total(db: &Db) -> Result<i64, DbError> {
    let (bytes,): (i64,) = db.one(SUM, &[]).await?;
    Ok(bytes)
}

/// Drops a batch of states of deleted repositories that no remaining event needs. Returns whether
/// there may be more.
pub(crate) async fn forget_snapshots(db: &Db) -> Result<bool, DbError> {
    let rows: Vec<(i64,)> = db.all_relaxed(&[(FORGET_SNAPSHOTS, 1)], &args![MAX_READ_ROWS]).await?;
    Ok(rows.len() as i64 == MAX_READ_ROWS)
}
