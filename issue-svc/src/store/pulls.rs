//! Rows of pull requests, which they have in addition to those of their issues.

use ferrite_db::args;
use ferrite_db::{DbError, Query, Tx};
use ferrite_proto::id::{IssueId, RepositoryId};
use sqlx_macros::FromRow;

use super::{IssueTable, Reader};
use crate::model::{Merged, NewPullRequest, OpenPull, PullEnds, PullRequest};

const INSERT: &str = "INSERT INTO pull_requests (issue_id, repository_id, head_repository_id, head_branch, base_branch, head_id, \
     merge_base_id, head_sequence, is_open) VALUES ($1, $2, $3, $4, $5, $6, $7, 1, $8)";
const FIND: &str = "SELECT head_repository_id, head_branch, base_branch, head_id, merge_base_id, is_head_deleted, head_sequence, \
     merged_us, merge_commit_id, merged_base_id, merger_id, review_comment_count FROM pull_requests WHERE issue_id = $1";
const OPEN_BETWEEN: &str = "SELECT issues.number FROM pull_requests JOIN issues ON issues.id = pull_requests.issue_id \
     WHERE pull_requests.repository_id = $1 AND pull_requests.base_branch = $2 AND pull_requests.head_repository_id = $3 \
     AND pull_requests.head_branch = $4 AND pull_requests.is_open AND pull_requests.head_repository_id <> 0";
const WITH_COMMIT: &str = "SELECT issues.number FROM issues JOIN (SELECT issue_id FROM pull_requests WHERE repository_id = $1 \
     AND head_id = $2 UNION SELECT issue_id FROM pull_requests WHERE repository_id = $1 AND merge_commit_id = $2 \
     AND merge_commit_id <> '') AS found ON found.issue_id = issues.id ORDER BY issues.number DESC LIMIT 1";
const OTHER_OF_HEAD: &str = "SELECT other.issue_id FROM pull_requests AS own JOIN pull_requests AS other \
     ON other.head_repository_id = own.head_repository_id AND other.head_branch = own.head_branch WHERE own.issue_id = $1 \
     AND own.head_repository_id <> 0 AND other.is_open AND other.issue_id <> own.issue_id LIMIT 1";
const SET_OPEN: &str = "UPDATE pull_requests SET is_open = $2 WHERE issue_id = $1";
const SET_HEAD: &str = "UPDATE pull_requests SET head_id = $2, merge_base_id = $3, head_sequence = head_sequence + 1, \
     is_head_deleted = FALSE WHERE issue_id = $1";
const SET_MERGE_BASE: &str = "UPDATE pull_requests SET merge_base_id = $2, is_head_deleted = FALSE WHERE issue_id = $1";
const SET_HEAD_DELETED: &str = "UPDATE pull_requests SET is_head_deleted = TRUE WHERE issue_id = $1";
const SET_HEAD_BRANCH: &str = "UPDATE pull_requests SET head_branch = $2 WHERE issue_id = $1";
const SET_BASE: &str = "UPDATE pull_requests SET base_branch = $2, merge_base_id = $3 WHERE issue_id = $1";
const SET_MERGED: &str = "UPDATE pull_requests SET merged_us = $2, merge_commit_id = $3, merged_base_id = $4, merger_id = $5, \
     head_id = $6, is_open = FALSE WHERE issue_id = $1";
const PERMIT: &str = "UPDATE pull_requests SET permitted_us = $2 WHERE issue_id = $1";
const COUNT_REVIEW_COMMENTS: &str =
    "UPDATE pull_requests SET review_comment_count = review_comment_count + $2 WHERE issue_id = $1";
const FORGET_HEAD_REPOSITORY: &str = "UPDATE pull_requests SET head_repository_id = 0, is_head_deleted = TRUE \
     WHERE head_repository_id = $1 AND repository_id <> $1";
const OF_BASE: &str = "SELECT pull_requests.issue_id, pull_requests.repository_id, issues.number, pull_requests.head_id \
     FROM pull_requests JOIN issues ON issues.id = pull_requests.issue_id WHERE pull_requests.repository_id = $1 \
     AND pull_requests.base_branch = $2 AND pull_requests.is_open AND pull_requests.issue_id > $3 \
     ORDER BY pull_requests.issue_id LIMIT $4";
const PERMITTED: &str = "SELECT pull_requests.issue_id, pull_requests.repository_id, issues.number, pull_requests.permitted_us \
     FROM pull_requests JOIN issues ON issues.id = pull_requests.issue_id WHERE pull_requests.permitted_us <> 0 \
     AND pull_requests.merged_us IS NULL AND pull_requests.permitted_us < $2 \
     AND (pull_requests.permitted_us > $1 OR (pull_requests.permitted_us = $1 AND pull_requests.issue_id > $3)) \
     ORDER BY pull_requests.permitted_us, pull_requests.issue_id LIMIT $4";

#[derive(FromRow)]
struct PullRow {
    head_repository_id: i64,
    head_branch: String,
    base_branch: String,
    head_id: String,
    merge_base_id: String,
    is_head_deleted: bool,
    head_sequence: i64,
    merged_us: Option<i64>,
    merge_commit_id: String,
    merged_base_id: String,
    merger_id: i64,
    review_comment_count: i64,
}

impl From<PullRow> for PullRequest {
    fn from(row: PullRow) -> Self {
        Self {
            head_repository_id: row.head_repository_id,
            head_branch: row.head_branch,
            base_branch: row.base_branch,
            head_id: row.head_id,
            merge_base_id: row.merge_base_id,
            is_head_deleted: row.is_head_deleted,
            head_sequence: row.head_sequence,
            merged_us: row.merged_us,
            merge_commit_id: row.merge_commit_id,
            merged_base_id: row.merged_base_id,
            merger_id: row.merger_id,
            review_comment_count: row.review_comment_count,
            ..Self::default()
        }
    }
}

/// A pull request whose merge was permitted, and of which no merge is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromRow)]
pub(crate) struct PermittedPull {
    pub(crate) issue_id: i64,
    pub(crate) repository_id: i64,
    pub(crate) number: i64,
    pub(crate) permitted_us: i64,
}

impl IssueTable {
    pub(super) async fn insert_pull(
        &self,
        tx: &mut Tx,
        issue: IssueId,
        repository: RepositoryId,
        new: &NewPullRequest,
        is_open: bool,
    ) -> Result<(), DbError> {
        let (head_branch, base_branch) = (new.head_branch.as_str(), new.base_branch.as_str());
        let (head_id, merge_base_id) = (new.head_id.as_str(), new.merge_base_id.as_str());
        let args =
            args![issue, repository, new.head_repository, head_branch, base_branch, head_id, merge_base_id, is_open];
        tx.execute(INSERT, &args).await.map(drop)
    }

    pub(crate) async fn pull(&self, reader: Reader<'_>, issue: IssueId) -> Result<Option<PullRequest>, DbError> {
        let row: Option<PullRow> = reader.optional(FIND, &args![issue]).await?;
        Ok(row.map(PullRequest::from))
    }

    /// Returns the number of the open pull request between two branches.
    pub(crate) async fn open_between(&self, reader: Reader<'_>, ends: &PullEnds) -> Result<Option<i64>, DbError> {
        let args = args![ends.repository, ends.base_branch.as_str(), ends.head_repository, ends.head_branch.as_str()];
        let row: Option<(i64,)> = reader.optional(OPEN_BETWEEN, &args).await?;
        Ok(row.map(|(number,)| number))
    }

    /// Returns whether another open pull request, of whatever repository, has the same head branch.
    pub(crate) async fn is_head_shared(&self, reader: Reader<'_>, issue: IssueId) -> Result<bool, DbError> {
        let row: Option<(i64,)> = reader.optional(OTHER_OF_HEAD, &args![issue]).await?;
        Ok(row.is_some())
    }

    /// Returns the number of the newest pull request with this head or merge commit.
    pub(crate) async fn pull_with_commit(
        &self,
        repository: RepositoryId,
        commit_id: &str,
    ) -> Result<Option<i64>, DbError> {
        let row: Option<(i64,)> = self.db.optional(WITH_COMMIT, &args![repository, commit_id]).await?;
        Ok(row.map(|(number,)| number))
    }

    /// Marks a pull request as open or closed, as its issue is.
    pub(crate) async fn set_pull_open(&self, tx: &mut Tx, issue: IssueId, is_open: bool) -> Result<(), DbError> {
        tx.execute(SET_OPEN, &args![issue, is_open]).await.map(drop)
    }

    /// Moves the head. Increments its sequence number.
    pub(crate) async fn set_head(
        &self,
        tx: &mut Tx,
        issue: IssueId,
        head_id: &str,
        merge_base_id: &str,
    ) -> Result<(), DbError> {
        tx.execute(SET_HEAD, &args![issue, head_id, merge_base_id]).await.map(drop)
    }

    /// Sets the merge base of an unchanged head.
    pub(crate) async fn set_merge_base(&self, tx: &mut Tx, issue: IssueId, merge_base_id: &str) -> Result<(), DbError> {
        tx.execute(SET_MERGE_BASE, &args![issue, merge_base_id]).await.map(drop)
    }

    pub(crate) async fn set_head_deleted(&self, tx: &mut Tx, issue: IssueId) -> Result<(), DbError> {
        tx.execute(SET_HEAD_DELETED, &args![issue]).await.map(drop)
    }

    pub(crate) async fn set_head_branch(&self, tx: &mut Tx, issue: IssueId, branch: &str) -> Result<(), DbError> {
        tx.execute(SET_HEAD_BRANCH, &args![issue, branch]).await.map(drop)
    }

    pub(crate) async fn set_base(
        &self,
        tx: &mut Tx,
        issue: IssueId,
        branch: &str,
        merge_base_id: &str,
    ) -> Result<(), DbError> {
        tx.execute(SET_BASE, &args![issue, branch, merge_base_id]).await.map(drop)
    }

    /// Marks a pull request as merged.
    pub(crate) async fn set_merged(
        &self,
        tx: &mut Tx,
        issue: IssueId,
        merged: &Merged,
        now_us: i64,
    ) -> Result<(), DbError> {
        let (commit_id, base_id, head_id) =
            (merged.commit_id.as_str(), merged.base_id.as_str(), merged.head_id.as_str());
        let args = args![issue, now_us, commit_id, base_id, merged.user, head_id];
        tx.execute(SET_MERGED, &args).await.map(drop)
    }

    /// Records that a merge was permitted.
    pub(crate) async fn set_permitted(&self, tx: &mut Tx, issue: IssueId, now_us: i64) -> Result<(), DbError> {
        tx.execute(PERMIT, &args![issue, now_us]).await.map(drop)
    }

    /// Adds to the number of comments of submitted reviews.
    pub(crate) async fn count_review_comments(&self, tx: &mut Tx, issue: IssueId, by: i64) -> Result<(), DbError> {
        tx.execute(COUNT_REVIEW_COMMENTS, &args![issue, by]).await.map(drop)
    }

    /// Removes a deleted repository from the heads of pull requests of other repositories.
    pub(crate) async fn forget_head_repository(&self, tx: &mut Tx, repository: RepositoryId) -> Result<(), DbError> {
        tx.execute(FORGET_HEAD_REPOSITORY, &args![repository]).await.map(drop)
    }

    /// Marks the heads of closed pull requests as deleted that are among these branches of a
    /// repository. Their heads do not move any more.
    pub(crate) async fn delete_heads_of_closed(
        &self,
        tx: &mut Tx,
        head_repository: RepositoryId,
        branches: &[&str],
    ) -> Result<(), DbError> {
        let mut query = Query::new(
            "UPDATE pull_requests SET is_head_deleted = TRUE WHERE NOT is_open AND NOT is_head_deleted AND head_repository_id = ",
        );
        query.bind(head_repository).push(" AND head_branch IN ").bind_list(branches.iter().copied());
        tx.execute(query.sql(), query.args()).await.map(drop)
    }

    /// Returns the open pull requests whose heads are among these branches of a repository, with the
    /// branch.
    pub(crate) async fn open_pulls_of_heads(
        &self,
        tx: &mut Tx,
        head_repository: RepositoryId,
        branches: &[&str],
    ) -> Result<Vec<(RepositoryId, i64, String)>, DbError> {
        let mut query = Query::new(
            "SELECT pull_requests.repository_id, issues.number, pull_requests.head_branch FROM pull_requests \
             JOIN issues ON issues.id = pull_requests.issue_id WHERE pull_requests.is_open AND pull_requests.head_repository_id = ",
        );
        query.bind(head_repository).push(" AND pull_requests.head_branch IN ").bind_list(branches.iter().copied());
        let rows: Vec<(i64, i64, String)> = tx.all(query.sql(), query.args()).await?;
        Ok(rows.into_iter().map(|(repository, number, branch)| (RepositoryId(repository), number, branch)).collect())
    }

    /// Returns those of these branches of a repository that are the base of open pull requests.
    pub(crate) async fn bases_in_use(
        &self,
        tx: &mut Tx,
        repository: RepositoryId,
        branches: &[&str],
    ) -> Result<Vec<String>, DbError> {
        let mut query = Query::new("SELECT DISTINCT base_branch FROM pull_requests WHERE is_open AND repository_id = ");
        query.bind(repository).push(" AND base_branch IN ").bind_list(branches.iter().copied());
        let rows: Vec<(String,)> = tx.all(query.sql(), query.args()).await?;
        Ok(rows.into_iter().map(|(branch,)| branch).collect())
    }

    /// Returns the next open pull requests of a base branch, after that of the issue `after`.
    pub(crate) async fn open_pulls_of_base(
        &self,
        repository: RepositoryId,
        branch: &str,
        after: IssueId,
        limit: i64,
    ) -> Result<Vec<OpenPull>, DbError> {
        let rows: Vec<(i64, i64, i64, String)> = self.db.all(OF_BASE, &args![repository, branch, after, limit]).await?;
        let pull = |(issue, repository, number, head_id)| OpenPull {
            issue: IssueId(issue),
            repository: RepositoryId(repository),
            number,
            head_id,
        };
        Ok(rows.into_iter().map(pull).collect())
    }

    /// Returns unmerged pull requests whose merge was permitted before `before_us`, after that of
    /// the issue at the time `after`.
    pub(crate) async fn permitted_pulls(
        &self,
        after: (i64, i64),
        before_us: i64,
        limit: i64,
    ) -> Result<Vec<PermittedPull>, DbError> {
        self.db.all(PERMITTED, &args![after.0, before_us, after.1, limit]).await
    }
}
