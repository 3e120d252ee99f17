//! Comments of reviews, on lines. They are there for whom their review is there.

use ferrite_core::page::Page;
use ferrite_db::args;
use ferrite_db::{DbError, Query, Tx};
use ferrite_proto::id::{IssueId, RepositoryId, UserId};
use sqlx_macros::FromRow;

use super::list::MAX_UNCOUNTED_ROWS;
use super::listed_texts::TextHead;
use super::{IssueTable, Reader};
use crate::model::{Body, NewReviewComment, Review, ReviewComment};

/// All columns but the body. The last ones are those of the review and of the pull request.
const SELECT: &str = "SELECT review_comments.id, review_comments.repository_id, review_comments.issue_id, issues.number, \
     review_comments.review_id, review_comments.user_id, review_comments.path, review_comments.is_old_side, \
     review_comments.line, review_comments.line_count, review_comments.commit_id, review_comments.line_commit_id, \
     review_comments.diff_hunk, review_comments.resolver_id, review_comments.created_us, review_comments.updated_us, \
     reviews.state AS review_state, issues.user_id AS pull_author_id, pull_requests.head_id, pull_requests.merge_base_id, ";
const FROM: &str = " FROM review_comments JOIN reviews ON reviews.id = review_comments.review_id \
     JOIN issues ON issues.id = review_comments.issue_id \
     JOIN pull_requests ON pull_requests.issue_id = review_comments.issue_id";
const INSERT: &str = "INSERT INTO review_comments (repository_id, issue_id, review_id, user_id, body, path, is_old_side, line, \
     line_count, commit_id, line_commit_id, diff_hunk, resolver_id, created_us, updated_us) VALUES ";
const UPDATE: &str = "UPDATE review_comments SET body = $2, updated_us = $3 WHERE id = $1";
const RESOLVE: &str = "UPDATE review_comments SET resolver_id = $2 WHERE id = $1";
const DELETE: &str = "DELETE FROM review_comments WHERE id = $1";
const IDS: &str = "SELECT id FROM review_comments WHERE review_id = $1 ORDER BY id";
const TEXTS: &str = "SELECT body FROM review_comments WHERE review_id = $1 ORDER BY id";
const TEXT_BYTES: &str =
    "SELECT CAST(COALESCE(SUM(OCTET_LENGTH(body)), 0) AS BIGINT) FROM review_comments WHERE review_id = $1";

#[derive(FromRow)]
struct CommentRow {
    id: i64,
    repository_id: i64,
    issue_id: i64,
    number: i64,
    review_id: i64,
    user_id: i64,
    path: String,
    is_old_side: bool,
    line: i64,
    line_count: i64,
    commit_id: String,
    line_commit_id: String,
    diff_hunk: String,
    resolver_id: i64,
    created_us: i64,
    updated_us: i64,
    review_state: i64,
    pull_author_id: i64,
    head_id: String,
    merge_base_id: String,
    body: String,
    #[sqlx(flatten)]
    head: TextHead,
}

/// Which comments on a pull request to list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReviewCommentFilter {
    pub(crate) issue: IssueId,
    /// Only those of this review.
    pub(crate) review: Option<i64>,
    /// Who lists them, and sees those of the own pending review.
    pub(crate) viewer: UserId,
    /// Only those that were changed at this time or later.
    pub(crate) since_us: Option<i64>,
    pub(crate) is_resolved: Option<bool>,
    pub(crate) is_newest_first: bool,
}

impl ReviewCommentFilter {
    /// Appends the conditions.
    fn push(&self, query: &mut Query) {
        query.push(" WHERE review_comments.issue_id = ").bind(self.issue);
        if let Some(review) = self.review {
            query.push(" AND review_comments.review_id = ").bind(review);
        }
        if let Some(since_us) = self.since_us {
            query.push(" AND review_comments.updated_us >= ").bind(since_us);
        }
        if let Some(is_resolved) = self.is_resolved {
            query.push(" AND review_comments.resolver_id").push(if is_resolved { " <> 0" } else { " = 0" });
        }
        query.push(" AND (reviews.state <> 1 OR reviews.user_id = ").bind(self.viewer).push(")");
    }
}

/// A comment with what its review and its pull request are now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FoundReviewComment {
    pub(crate) comment: ReviewComment,
    pub(crate) is_pending: bool,
    pub(crate) pull_author: UserId,
    pub(crate) head_id: String,
    pub(crate) merge_base_id: String,
}

impl From<CommentRow> for FoundReviewComment {
    fn from(row: CommentRow) -> Self {
        let (body, is_truncated) = row.head.or(row.body);
        let comment = ReviewComment {
            id: row.id,
            repository: RepositoryId(row.repository_id),
            issue: IssueId(row.issue_id),
            number: row.number,
            review_id: row.review_id,
            author: UserId(row.user_id),
            body,
            is_truncated,
            path: row.path,
            is_old_side: row.is_old_side,
            line: row.line,
            line_count: row.line_count,
            commit_id: row.commit_id,
            line_commit_id: row.line_commit_id,
            diff_hunk: row.diff_hunk,
            resolver: UserId(row.resolver_id),
            created_us: row.created_us,
            updated_us: row.updated_us,
        };
        Self {
            comment,
            is_pending: row.review_state == 1,
            pull_author: UserId(row.pull_author_id),
            head_id: row.head_id,
            merge_base_id: row.merge_base_id,
        }
    }
}

impl IssueTable {
    /// Adds comments of the author to a review, with ids in their order. They are on its commit and
    /// its merge base.
    pub(crate) async fn insert_review_comments(
        &self,
        tx: &mut Tx,
        review: &Review,
        comments: &[NewReviewComment],
        now_us: i64,
    ) -> Result<(), DbError> {
        if comments.is_empty() {
            return Ok(());
        }
        let row = |new: &NewReviewComment| {
            let line_commit_id = if new.is_old_side { &review.merge_base_id } else { &review.commit_id };
            args![
                review.repository,
                review.issue,
                review.id,
                review.user,
                new.body.as_str(),
                new.path.as_str(),
                new.is_old_side,
                new.line,
                new.line_count,
                review.commit_id.as_str(),
                line_commit_id.as_str(),
                new.diff_hunk.as_str(),
                0_i64,
                now_us,
                now_us
            ]
        };
        let mut query = Query::new(INSERT);
        query.bind_rows(comments.iter().map(row));
        tx.execute(query.sql(), query.args()).await.map(drop)
    }

    pub(crate) async fn update_review_comment(
        &self,
        tx: &mut Tx,
        id: i64,
        body: &Body,
        now_us: i64,
    ) -> Result<(), DbError> {
        tx.execute(UPDATE, &args![id, body.as_str(), now_us]).await.map(drop)
    }

    /// Sets who resolved a comment; zero for nobody.
    pub(crate) async fn set_resolver(&self, tx: &mut Tx, id: i64, resolver: UserId) -> Result<(), DbError> {
        tx.execute(RESOLVE, &args![id, resolver]).await.map(drop)
    }

    pub(crate) async fn delete_review_comment(&self, tx: &mut Tx, id: i64) -> Result<(), DbError> {
        tx.execute(DELETE, &args![id]).await.map(drop)
    }

    /// Returns a comment of the repository. One of a pending review is only there for its author.
    pub(crate) async fn review_comment(
        &self,
        reader: Reader<'_>,
        repository: RepositoryId,
        id: i64,
        viewer: UserId,
    ) -> Result<Option<FoundReviewComment>, DbError> {
        let mut query = Query::new(SELECT);
        query.push("review_comments.body").push(FROM).push(" WHERE review_comments.id = ").bind(id);
        query.push(" AND review_comments.repository_id = ").bind(repository);
        query.push(" AND (reviews.state <> 1 OR reviews.user_id = ").bind(viewer).push(")");
        let row: Option<CommentRow> = reader.optional(query.sql(), query.args()).await?;
        Ok(row.map(FoundReviewComment::from))
    }

    /// Returns a page of comments, their number as far as they were counted, and whether there are
    /// more. The list ends after [`MAX_UNCOUNTED_ROWS`].
    pub(crate) async fn list_review_comments(
        &self,
        filter: &ReviewCommentFilter,
        page: Page,
    ) -> Result<(Vec<ReviewComment>, i64, bool), DbError> {
        let mut count = Query::new("SELECT COUNT(*) FROM (SELECT 1");
        filter.push(count.push(FROM));
        count.push(" LIMIT ").bind(MAX_UNCOUNTED_ROWS + 1).push(") AS found");
        let (found,): (i64,) = self.db.one(count.sql(), count.args()).await?;
        let (total, is_partial) = (found.min(MAX_UNCOUNTED_ROWS), found > MAX_UNCOUNTED_ROWS);
        if page.offset() >= total {
            return Ok((Vec::new(), total, is_partial));
        }
        let rows = |query: &mut Query| {
            filter.push(query);
            query.push(" ORDER BY review_comments.id").push(if filter.is_newest_first { " DESC" } else { "" });
            query.push(" LIMIT ").bind(page.size().min(total - page.offset()));
            query.push(" OFFSET ").bind(page.offset());
        };
        let mut texts = Query::new("SELECT review_comments.body AS text");
        rows(texts.push(FROM));
        let max_bytes = self.listed_text_bytes(page, texts).await?;
        let mut query = Query::new(SELECT);
        self.push_text_head(query.push("'' AS body, "), "review_comments.body", max_bytes);
        rows(query.push(FROM));
        let rows: Vec<CommentRow> = self.db.all(query.sql(), query.args()).await?;
        let comments = rows.into_iter().map(|row| FoundReviewComment::from(row).comment).collect();
        Ok((comments, total, is_partial))
    }

    /// Returns the ids of the comments of a review, oldest first.
    pub(crate) async fn review_comment_ids(&self, tx: &mut Tx, review: i64) -> Result<Vec<i64>, DbError> {
        let rows: Vec<(i64,)> = tx.all(IDS, &args![review]).await?;
        Ok(rows.into_iter().map(|(id,)| id).collect())
    }

    /// Returns the texts of the comments of a review, oldest first.
    pub(crate) async fn review_comment_texts(&self, review: i64) -> Result<Vec<String>, DbError> {
        let rows: Vec<(String,)> = self.db.all(TEXTS, &args![review]).await?;
        Ok(rows.into_iter().map(|(text,)| text).collect())
    }

    /// Returns the bytes of the texts of a review's comments.
    pub(crate) async fn review_text_bytes(&self, tx: &mut Tx, review: i64) -> Result<i64, DbError> {
        let (bytes,): (i64,) = tx.one(TEXT_BYTES, &args![review]).await?;
        Ok(bytes)
    }
}
