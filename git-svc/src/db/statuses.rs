//! Commit statuses.

use std::time::Duration;

use ferrite_core::{Clock, Lifecycle};
use ferrite_db::{Db, DbError, Query, Tx, args};
use ferrite_proto::{git::StatusState, id::RepositoryId};
use git_store::{repo::refs::Page, types::error::GitError};
use git2::Oid;

/// Maximum number of contexts of one commit.
pub(crate) const MAX_CONTEXTS: usize = 100;
/// Number of statuses that a commit keeps of each context.
pub(crate) const KEPT_PER_CONTEXT: i64 = 10;
/// Rows deleted at once.
const MAX_PURGED_ROWS: u64 = 1000;
const PURGE_PAUSE: Duration = Duration::from_millis(50);
const PURGE_INTERVAL: Duration = Duration::from_secs(3600);

/// Waits for a deletion of the repository and for other statuses (PostgreSQL). SQLite has one
/// writer at a time.
const LOCK_POSTGRES: &str =
    "SELECT repository_id FROM repositories WHERE repository_id = $1 AND NOT deleted FOR UPDATE";
const LOCK_SQLITE: &str = "SELECT repository_id FROM repositories WHERE repository_id = $1 AND NOT deleted";
const CONTEXTS: &str = "SELECT DISTINCT context FROM statuses WHERE repository_id = $1 AND commit_id = $2";
const ADD: &str = "INSERT INTO statuses (repository_id, commit_id, context, state, target_url, description, user_id, created_us) \
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8) RETURNING id";
const TRIM: &str = "DELETE FROM statuses WHERE repository_id = $1 AND commit_id = $2 AND context = $3 AND id NOT IN \
     (SELECT id FROM statuses WHERE repository_id = $1 AND commit_id = $2 AND context = $3 ORDER BY id DESC LIMIT $4)";
const COLUMNS: &str =
    "SELECT id, commit_id, context, state, target_url, description, user_id, created_us FROM statuses";
const BY_ID: &str = " WHERE repository_id = $1 AND id = $2";
const NEWEST: &str =
    " WHERE id IN (SELECT MAX(id) FROM statuses WHERE repository_id = $1 AND commit_id = $2 GROUP BY context)";
const DELETE_ALL: &str = "DELETE FROM statuses WHERE repository_id = $1";
const PURGE: &str =
    "DELETE FROM statuses WHERE id IN (SELECT id FROM statuses WHERE created_us < $1 ORDER BY created_us LIMIT $2)";

#[derive(Clone, Debug)]
pub(crate) struct StatusTable {
    db: Db,
}

/// A stored status.
#[derive(Clone, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub(crate) struct StatusRow {
    pub(crate) id: i64,
    pub(crate) commit_id: String,
    pub(crate) context: String,
    state: i64,
    pub(crate) target_url: String,
    pub(crate) description: String,
    pub(crate) user_id: i64,
    pub(crate) created_us: i64,
}

/// A status to store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NewStatus {
    pub(crate) commit: Oid,
    pub(crate) context: String,
    pub(crate) state: StatusState,
    pub(crate) target_url: String,
    pub(crate) description: String,
    pub(crate) user: i64,
}

impl StatusRow {
    pub(crate) fn state(&self) -> StatusState {
        i32::try_from(self.state).ok().and_then(|state| StatusState::try_from(state).ok()).unwrap_or_default()
    }
}

impl StatusTable {
    pub(crate) fn new(db: Db) -> Self {
        Self { db }
    }

    /// Adds a status. Older ones of its context beyond [`KEPT_PER_CONTEXT`] are deleted.
    pub(crate) async fn add(
        tx: &mut Tx,
        repository: RepositoryId,
        status: NewStatus,
        now_us: i64,
    ) -> Result<Result<StatusRow, GitError>, DbError> {
        let row: Option<(i64,)> = tx.optional(tx.pick(LOCK_POSTGRES, LOCK_SQLITE), &args![repository]).await?;
        if row.is_none() {
            return Ok(Err(GitError::RepositoryNotFound));
        }
        let NewStatus { commit, context, state, target_url, description, user } = status;
        let commit_id = commit.to_string();
        let contexts: Vec<(String,)> = tx.all(CONTEXTS, &args![repository, commit_id.as_str()]).await?;
        if contexts.len() >= MAX_CONTEXTS && !contexts.iter().any(|(known,)| *known == context) {
            return Ok(Err(GitError::TooManyStatuses { limit: MAX_CONTEXTS }));
        }
        let state = i64::from(i32::from(state));
        let args = args![
            repository,
            commit_id.as_str(),
            context.as_str(),
            state,
            target_url.as_str(),
            description.as_str(),
            user,
            now_us
        ];
        let (id,): (i64,) = tx.one(ADD, &args).await?;
        tx.execute(TRIM, &args![repository, commit_id.as_str(), context.as_str(), KEPT_PER_CONTEXT]).await?;
        Ok(Ok(StatusRow { id, commit_id, context, state, target_url, description, user_id: user, created_us: now_us }))
    }

    /// Returns a status of a repository by its id.
    pub(crate) async fn find(&self, repository: RepositoryId, id: i64) -> Result<Option<StatusRow>, DbError> {
        let mut query = Query::new(COLUMNS);
        query.push(BY_ID);
        self.db.optional(query.sql(), &args![repository, id]).await
    }

    /// Returns a page of the statuses of a commit, and their number.
    pub(crate) async fn list(
        &self,
        repository: RepositoryId,
        commit: Oid,
        state: Option<StatusState>,
        is_oldest_first: bool,
        page: Page,
    ) -> Result<(Vec<StatusRow>, i64), DbError> {
        let filter = |query: &mut Query| {
            query.push(" WHERE repository_id = ").bind(repository).push(" AND commit_id = ").bind(commit.to_string());
            if let Some(state) = state {
                query.push(" AND state = ").bind(i64::from(i32::from(state)));
            }
        };
        let mut count = Query::new("SELECT COUNT(*) FROM statuses");
        filter(&mut count);
        let (total,): (i64,) = self.db.one(count.sql(), count.args()).await?;
        let mut query = Query::new(COLUMNS);
        filter(&mut query);
        query.push(if is_oldest_first { " ORDER BY id" } else { " ORDER BY id DESC" });
        let (limit, offset) = bounds(page);
        query.push(" LIMIT ").bind(limit).push(" OFFSET ").bind(offset);
        Ok((self.db.all(query.sql(), query.args()).await?, total))
    }

    /// Returns the newest status of each context of a commit, newest first: at most
    /// [`MAX_CONTEXTS`].
    pub(crate) async fn newest(&self, repository: RepositoryId, commit: Oid) -> Result<Vec<StatusRow>, DbError> {
        let mut query = Query::new(COLUMNS);
        query.push(NEWEST).push(" ORDER BY id DESC");
        self.db.all(query.sql(), &args![repository, commit.to_string()]).await
    }

    pub(crate) async fn delete_all(tx: &mut Tx, repository: RepositoryId) -> Result<(), DbError> {
        tx.execute(DELETE_ALL, &args![repository]).await.map(drop)
    }

    /// Deletes statuses older than `retention`, once an hour, until the process stops.
    pub(crate) async fn purge_in_background(self, clock: Clock, retention: Option<Duration>, life: Lifecycle) {
        let Some(retention) = retention else { return };
        let retention_us = i64::try_from(retention.as_micros()).unwrap_or(i64::MAX);
        while !life.is_stopping() {
            if let Err(error) = self.purge(clock.now_us().saturating_sub(retention_us)).await {
                tracing::warn!(%error, "cannot delete old commit statuses");
            }
            life.pause(PURGE_INTERVAL).await;
        }
    }

    /// Deletes statuses created before `before_us` (microseconds since 1970), in batches.
    pub(crate) async fn purge(&self, before_us: i64) -> Result<(), DbError> {
        while self.db.execute(PURGE, &args![before_us, MAX_PURGED_ROWS as i64]).await? == MAX_PURGED_ROWS {
            tokio::time::sleep(PURGE_PAUSE).await;
        }
        Ok(())
    }
}

/// Limit and offset of a page.
fn bounds(page: Page) -> (i64, i64) {
    let offset = page.number.saturating_sub(1).saturating_mul(page.size);
    (i64::try_from(page.size).unwrap_or(i64::MAX), i64::try_from(offset).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::RepositoryTable;
    use crate::testing::on_each;

    fn status(commit: Oid, context: &str, state: StatusState) -> NewStatus {
        let (context, target_url, description) =
            (context.to_owned(), "https://ci.example".to_owned(), "Done".to_owned());
        NewStatus { commit, context, state, target_url, description, user: 7 }
    }

    async fn add(db: &Db, repository: RepositoryId, status: NewStatus, now_us: i64) -> Result<StatusRow, GitError> {
        let mut tx = db.begin().await.unwrap();
        let added = StatusTable::add(&mut tx, repository, status, now_us).await.unwrap();
        tx.commit().await.unwrap();
        added
    }

    #[tokio::test]
    async fn a_commit_keeps_the_newest_statuses_of_each_context() {
        on_each(async |db| {
            let (table, one) = (StatusTable::new(db.clone()), RepositoryId(1));
            RepositoryTable::new(db.clone()).place(one, "a", 1, false, 5).await.unwrap();
            let (commit, other) = (Oid::from_bytes(&[1; 20]).unwrap(), Oid::from_bytes(&[2; 20]).unwrap());
            for at in 0..12 {
                let state = if at % 2 == 0 { StatusState::Pending } else { StatusState::Success };
                add(&db, one, status(commit, "build", state), at).await.unwrap();
            }
            let lint = add(&db, one, status(commit, "lint", StatusState::Failure), 20).await.unwrap();
            add(&db, one, status(other, "build", StatusState::Error), 21).await.unwrap();
            assert_eq!(table.find(one, lint.id).await.unwrap().as_ref(), Some(&lint));
            assert_eq!(table.find(RepositoryId(2), lint.id).await.unwrap(), None);
            let page = |number, size| Page { number, size };
            let (all, total) = table.list(one, commit, None, false, page(1, 50)).await.unwrap();
            assert_eq!((all.len(), total, &all[0]), (11, 11, &lint));
            let (old, _) = table.list(one, commit, None, true, page(2, 1)).await.unwrap();
            assert_eq!(old[0].created_us, 3);
            let (pending, total) =
                table.list(one, commit, Some(StatusState::Pending), false, page(1, 2)).await.unwrap();
            assert_eq!((pending.len(), total, pending[0].state()), (2, 5, StatusState::Pending));
            let newest: Vec<_> = table.newest(one, commit).await.unwrap();
            let newest: Vec<_> = newest.iter().map(|row| (row.context.as_str(), row.state(), row.created_us)).collect();
            assert_eq!(newest, [("lint", StatusState::Failure, 20), ("build", StatusState::Success, 11)]);
            table.purge(11).await.unwrap();
            assert_eq!(table.list(one, commit, None, false, page(1, 50)).await.unwrap().1, 2);
            let mut tx = db.begin().await.unwrap();
            StatusTable::delete_all(&mut tx, one).await.unwrap();
            RepositoryTable::delete(&mut tx, one, "a", 30).await.unwrap();
            tx.commit().await.unwrap();
            let late = add(&db, one, status(commit, "build", StatusState::Success), 31).await;
            assert!(matches!(late, Err(GitError::RepositoryNotFound)));
        })
        .await;
    }

    #[tokio::test]
    async fn the_contexts_of_a_commit_are_limited() {
        on_each(async |db| {
            let one = RepositoryId(1);
            RepositoryTable::new(db.clone()).place(one, "a", 1, false, 5).await.unwrap();
            let commit = Oid::from_bytes(&[1; 20]).unwrap();
            for number in 0..MAX_CONTEXTS {
                add(&db, one, status(commit, &format!("c{number}"), StatusState::Success), 1).await.unwrap();
            }
            let refused = add(&db, one, status(commit, "one more", StatusState::Success), 2).await;
            assert!(matches!(refused, Err(GitError::TooManyStatuses { limit: MAX_CONTEXTS })));
            add(&db, one, status(commit, "c7", StatusState::Failure), 2).await.unwrap();
        })
        .await;
    }
}
