//! Merges that wait for the protection of their base branch.

use ferrite_db::args;
use ferrite_db::{DbError, Tx};
use ferrite_proto::git::CommitIdentity;
use ferrite_proto::id::{IssueId, RepositoryId, UserId};
use sqlx_macros::FromRow;

use super::{IssueTable, Reader};
use crate::model::ScheduledMerge;

const INSERT: &str = "INSERT INTO scheduled_merges (issue_id, repository_id, number, user_id, token_id, style, head_id, message, \
     author_name, author_email, deletes_branch, created_us, tried_us) \
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $12) ON CONFLICT (issue_id) DO NOTHING RETURNING issue_id";
const FIND: &str = "SELECT issue_id, repository_id, number, user_id, token_id, style, head_id, message, author_name, author_email, \
     deletes_branch, created_us FROM scheduled_merges WHERE issue_id = $1";
const IS_SCHEDULED: &str = "SELECT issue_id FROM scheduled_merges WHERE issue_id = $1";
const DELETE: &str = "DELETE FROM scheduled_merges WHERE issue_id = $1 RETURNING issue_id";
const OF_COMMIT: &str = "SELECT scheduled_merges.number FROM scheduled_merges JOIN pull_requests \
     ON pull_requests.issue_id = scheduled_merges.issue_id WHERE scheduled_merges.repository_id = $1 AND pull_requests.head_id = $2 \
     ORDER BY scheduled_merges.issue_id LIMIT $3";
const CLAIM_STALE: &str = "UPDATE scheduled_merges SET tried_us = $2 WHERE issue_id IN \
     (SELECT issue_id FROM scheduled_merges WHERE tried_us < $1 ORDER BY tried_us, issue_id LIMIT $3) \
     RETURNING repository_id, number, user_id";

#[derive(FromRow)]
struct ScheduledRow {
    issue_id: i64,
    repository_id: i64,
    number: i64,
    user_id: i64,
    token_id: i64,
    style: i64,
    head_id: String,
    message: String,
    author_name: String,
    author_email: String,
    deletes_branch: bool,
    created_us: i64,
}

impl From<ScheduledRow> for ScheduledMerge {
    fn from(row: ScheduledRow) -> Self {
        let (name, email) = (row.author_name, row.author_email);
        let has_author = !name.is_empty() || !email.is_empty();
        Self {
            issue: IssueId(row.issue_id),
            repository: RepositoryId(row.repository_id),
            number: row.number,
            user: UserId(row.user_id),
            token_id: row.token_id,
            style: i32::try_from(row.style).unwrap_or_default(),
            head_id: row.head_id,
            message: row.message,
            author: has_author.then(|| CommitIdentity { name, email, ..CommitIdentity::default() }),
            deletes_branch: row.deletes_branch,
            created_us: row.created_us,
        }
    }
}

impl IssueTable {
    /// Inserts a scheduled merge. Returns false if the pull request has one.
    pub(crate) async fn insert_scheduled_merge(&self, tx: &mut Tx, new: &ScheduledMerge) -> Result<bool, DbError> {
        let author = new.author.clone().unwrap_or_default();
        let (head_id, message) = (new.head_id.as_str(), new.message.as_str());
        let (style, name, email) = (i64::from(new.style), author.name.as_str(), author.email.as_str());
        let args = args![
            new.issue,
            new.repository,
            new.number,
            new.user,
            new.token_id,
            style,
            head_id,
            message,
            name,
            email,
            new.deletes_branch,
            new.created_us
        ];
        let row: Option<(i64,)> = tx.optional(INSERT, &args).await?;
        Ok(row.is_some())
    }

    pub(crate) async fn scheduled_merge(
        &self,
        reader: Reader<'_>,
        issue: IssueId,
    ) -> Result<Option<ScheduledMerge>, DbError> {
        let row: Option<ScheduledRow> = reader.optional(FIND, &args![issue]).await?;
        Ok(row.map(ScheduledMerge::from))
    }

    pub(crate) async fn has_scheduled_merge(&self, tx: &mut Tx, issue: IssueId) -> Result<bool, DbError> {
        let row: Option<(i64,)> = tx.optional(IS_SCHEDULED, &args![issue]).await?;
        Ok(row.is_some())
    }

    /// Deletes the scheduled merge of a pull request. Returns whether there was one.
    pub(crate) async fn delete_scheduled_merge(&self, tx: &mut Tx, issue: IssueId) -> Result<bool, DbError> {
        let row: Option<(i64,)> = tx.optional(DELETE, &args![issue]).await?;
        Ok(row.is_some())
    }

    /// Returns the numbers of pull requests with this head and a scheduled merge.
    pub(crate) async fn scheduled_merges_of(
        &self,
        tx: &mut Tx,
        repository: RepositoryId,
        head_id: &str,
        limit: i64,
    ) -> Result<Vec<i64>, DbError> {
        let rows: Vec<(i64,)> = tx.all(OF_COMMIT, &args![repository, head_id, limit]).await?;
        Ok(rows.into_iter().map(|(number,)| number).collect())
    }

    /// Whether there are scheduled merges that were last tried before a time.
    pub(crate) async fn has_stale_merges(&self, before_us: i64) -> Result<bool, DbError> {
        let sql = "SELECT issue_id FROM scheduled_merges WHERE tried_us < $1 LIMIT 1";
        let row: Option<(i64,)> = self.db.optional(sql, &args![before_us]).await?;
        Ok(row.is_some())
    }

    /// Returns scheduled merges that were last tried before `before_us`, and notes that they are
    /// tried now. Each is the repository, the number and the user.
    pub(crate) async fn claim_stale_merges(
        &self,
        tx: &mut Tx,
        (before_us, now_us): (i64, i64),
        limit: i64,
    ) -> Result<Vec<(RepositoryId, i64, UserId)>, DbError> {
        let rows: Vec<(i64, i64, i64)> = tx.all(CLAIM_STALE, &args![before_us, now_us, limit]).await?;
        Ok(rows
            .into_iter()
            .map(|(repository, number, user)| (RepositoryId(repository), number, UserId(user)))
            .collect())
    }
}
