//! SQL and rows of issues and their counters; the only module that names these tables.
//!
//! Not here: validation (`model`).

#[cfg(test)]
mod tests;

use ferrite_kit::args;
use ferrite_kit::db::{Db, DbError, Query, Tx};
use ferrite_kit::page::Page;
use ferrite_proto::id::{IssueId, RepositoryId, UserId};
use sqlx::FromRow;

use crate::model::{Counter, Issue, NewIssue};

/// Locks the row until the transaction ends, so that writes to one repository, and their events, have one order.
const NEXT_NUMBER: &str = "INSERT INTO issue_counters (repository_id, last_number, open_count, version, is_deleted) \
     VALUES ($1, 1, $2, 1, FALSE) ON CONFLICT (repository_id) DO UPDATE SET last_number = issue_counters.last_number + 1, \
     open_count = issue_counters.open_count + excluded.open_count, version = issue_counters.version + 1 \
     RETURNING last_number, open_count, version, is_deleted";
const MARK_DELETED: &str = "INSERT INTO issue_counters (repository_id, last_number, open_count, version, is_deleted) \
     VALUES ($1, 0, 0, 1, TRUE) ON CONFLICT (repository_id) DO UPDATE SET open_count = 0, \
     version = issue_counters.version + 1, is_deleted = TRUE";
const DELETE_ALL: &str = "DELETE FROM issues WHERE repository_id = $1";
const INSERT: &str = "INSERT INTO issues (repository_id, number, user_id, title, body, is_closed, comment_count, created_us, \
     updated_us) VALUES ($1, $2, $3, $4, $5, $6, 0, $7, $7) RETURNING id";
const FIND: &str = "SELECT id, repository_id, number, user_id, title, body, is_closed, comment_count, created_us, updated_us \
     FROM issues WHERE repository_id = $1 AND number = $2";
const LIST: &str = "SELECT id, repository_id, number, user_id, title, body, is_closed, comment_count, created_us, updated_us \
     FROM issues WHERE repository_id = ";
const COUNT: &str = "SELECT COUNT(*) FROM issues WHERE repository_id = ";

/// Store of issues.
#[derive(Clone, Debug)]
pub(crate) struct IssueStore {
    db: Db,
}

#[derive(FromRow)]
struct IssueRow {
    id: i64,
    repository_id: i64,
    number: i64,
    user_id: i64,
    title: String,
    body: String,
    is_closed: bool,
    comment_count: i64,
    created_us: i64,
    updated_us: i64,
}

#[derive(FromRow)]
struct CounterRow {
    last_number: i64,
    open_count: i64,
    version: i64,
    is_deleted: bool,
}

impl From<IssueRow> for Issue {
    fn from(row: IssueRow) -> Self {
        Self {
            id: IssueId(row.id),
            repository: RepositoryId(row.repository_id),
            number: row.number,
            author: UserId(row.user_id),
            title: row.title,
            body: row.body,
            is_closed: row.is_closed,
            comment_count: row.comment_count,
            created_us: row.created_us,
            updated_us: row.updated_us,
        }
    }
}

impl IssueStore {
    /// Creates the store over `db`.
    pub(crate) fn new(db: Db) -> Self {
        Self { db }
    }

    /// Returns the database, for transactions.
    pub(crate) fn db(&self) -> &Db {
        &self.db
    }

    /// Assigns the repository's next number for `new` and updates its counters; `None` if the repository was deleted. Other
    /// transactions wait for a number of this repository until this one ends.
    pub(crate) async fn next_number(&self, tx: &mut Tx, new: &NewIssue) -> Result<Option<Counter>, DbError> {
        let opened = i64::from(!new.is_closed);
        let row: CounterRow = tx.one(NEXT_NUMBER, &args![new.repository, opened]).await?;
        let counter = Counter { last_number: row.last_number, open_count: row.open_count, version: row.version };
        Ok((!row.is_deleted).then_some(counter))
    }

    /// Inserts `new` with a number that [`IssueStore::next_number`] assigned in the same transaction.
    pub(crate) async fn insert(&self, tx: &mut Tx, new: &NewIssue, number: i64, now_us: i64) -> Result<Issue, DbError> {
        let (title, body) = (new.title.as_str(), new.body.as_str());
        let args = args![new.repository, number, new.author, title, body, new.is_closed, now_us];
        let (id,): (i64,) = tx.one(INSERT, &args).await?;
        Ok(Issue {
            id: IssueId(id),
            repository: new.repository,
            number,
            author: new.author,
            title: title.to_owned(),
            body: body.to_owned(),
            is_closed: new.is_closed,
            comment_count: 0,
            created_us: now_us,
            updated_us: now_us,
        })
    }

    /// Returns the issue with this number.
    pub(crate) async fn find(&self, repository: RepositoryId, number: i64) -> Result<Option<Issue>, DbError> {
        let row: Option<IssueRow> = self.db.optional(FIND, &args![repository, number]).await?;
        Ok(row.map(Issue::from))
    }

    /// Returns a page of the repository's issues, newest first, and their total number: all, or with `is_closed` only the closed or
    /// only the open ones.
    pub(crate) async fn list(
        &self,
        repository: RepositoryId,
        is_closed: Option<bool>,
        page: Page,
    ) -> Result<(Vec<Issue>, i64), DbError> {
        let mut list = filtered(LIST, repository, is_closed);
        list.push(" ORDER BY created_us DESC, number DESC LIMIT ").bind(page.size());
        list.push(" OFFSET ").bind(page.offset());
        let rows: Vec<IssueRow> = self.db.all(list.sql(), list.args()).await?;
        let count = filtered(COUNT, repository, is_closed);
        let (total,): (i64,) = self.db.one(count.sql(), count.args()).await?;
        Ok((rows.into_iter().map(Issue::from).collect(), total))
    }

    /// Deletes the issues of a deleted repository and marks it as deleted for good, because ids are never reused. Returns the
    /// number of deleted issues.
    pub(crate) async fn purge(&self, tx: &mut Tx, repository: RepositoryId) -> Result<u64, DbError> {
        // The counter first: its lock waits for earlier writers, whose issues are then deleted, and later writers find the mark.
        tx.execute(MARK_DELETED, &args![repository]).await?;
        tx.execute(DELETE_ALL, &args![repository]).await
    }
}

fn filtered(sql: &'static str, repository: RepositoryId, is_closed: Option<bool>) -> Query {
    let mut query = Query::new(sql);
    query.bind(repository);
    if let Some(is_closed) = is_closed {
        query.push(" AND is_closed = ").bind(is_closed);
    }
    query
}
