//! Comments. The list of a repository is counted in blocks of its sequence, like lists of issues.
//! The list of an issue is counted by the issue.

use ferrite_core::page::Page;
use ferrite_db::args;
use ferrite_db::{DbError, Query, Tx};
use ferrite_proto::id::{RepositoryId, UserId};
use sqlx_macros::FromRow;

use super::IssueTable;
use super::Reader;
use super::list::MAX_UNCOUNTED_ROWS;
use super::listed_texts::TextHead;
use super::tallies::{BLOCK_NUMBERS, COMMENT_CLASS, List};
use crate::model::{Body, Class, Comment, Issue};

const SELECT: &str = "SELECT comments.id, comments.repository_id, comments.issue_id, issues.number, issues.class, comments.sequence, \
     comments.user_id, comments.body, comments.created_us, comments.updated_us FROM comments \
     JOIN issues ON issues.id = comments.issue_id";
/// The columns of a list. Those of [`IssueTable::push_text_head`] follow.
const SELECT_LISTED: &str = "SELECT comments.id, comments.repository_id, comments.issue_id, issues.number, issues.class, \
     comments.sequence, comments.user_id, '' AS body, comments.created_us, comments.updated_us, ";
const FROM: &str = " FROM comments JOIN issues ON issues.id = comments.issue_id";
const INSERT: &str = "INSERT INTO comments (repository_id, issue_id, sequence, user_id, body, created_us, updated_us) \
     VALUES ($1, $2, $3, $4, $5, $6, $6) RETURNING id";
const UPDATE: &str = "UPDATE comments SET body = $2, updated_us = $3 WHERE id = $1";
const DELETE: &str = "DELETE FROM comments WHERE id = $1";

#[derive(FromRow)]
struct CommentRow {
    id: i64,
    repository_id: i64,
    issue_id: i64,
    number: i64,
    class: i64,
    sequence: i64,
    user_id: i64,
    body: String,
    created_us: i64,
    updated_us: i64,
    #[sqlx(flatten)]
    head: TextHead,
}

impl From<CommentRow> for Comment {
    fn from(row: CommentRow) -> Self {
        let (body, is_truncated) = row.head.or(row.body);
        Self {
            id: row.id,
            repository: RepositoryId(row.repository_id),
            issue_id: row.issue_id,
            issue_number: row.number,
            is_pull_request: Class::from_number(row.class).is_pull_request,
            sequence: row.sequence,
            author: UserId(row.user_id),
            body,
            is_truncated,
            created_us: row.created_us,
            updated_us: row.updated_us,
        }
    }
}

#[derive(Debug)]
pub(crate) struct CommentPage {
    /// Oldest first, with long texts cut.
    pub(crate) comments: Vec<Comment>,
    /// The number in all pages, as far as they were counted.
    pub(crate) total: i64,
    /// Whether there are more than were counted.
    pub(crate) is_partial: bool,
}

impl IssueTable {
    /// Inserts a comment with the sequence number that [`IssueTable::advance`] assigned in the same
    /// transaction.
    pub(crate) async fn insert_comment(
        &self,
        tx: &mut Tx,
        issue: &Issue,
        author: UserId,
        body: &Body,
        sequence: i64,
        now_us: i64,
    ) -> Result<Comment, DbError> {
        let args = args![issue.repository, issue.id, sequence, author, body.as_str(), now_us];
        let (id,): (i64,) = tx.one(INSERT, &args).await?;
        Ok(Comment {
            id,
            repository: issue.repository,
            issue_id: issue.id.0,
            issue_number: issue.number,
            is_pull_request: issue.class.is_pull_request,
            sequence,
            author,
            body: body.as_str().to_owned(),
            is_truncated: false,
            created_us: now_us,
            updated_us: now_us,
        })
    }

    pub(crate) async fn update_comment(&self, tx: &mut Tx, id: i64, body: &Body, now_us: i64) -> Result<(), DbError> {
        tx.execute(UPDATE, &args![id, body.as_str(), now_us]).await.map(|_| ())
    }

    pub(crate) async fn delete_comment(&self, tx: &mut Tx, id: i64) -> Result<(), DbError> {
        tx.execute(DELETE, &args![id]).await.map(|_| ())
    }

    /// Returns a comment of the repository. If `number` is not zero, the comment must be on that
    /// issue.
    pub(crate) async fn comment(
        &self,
        reader: Reader<'_>,
        repository: RepositoryId,
        number: i64,
        id: i64,
    ) -> Result<Option<Comment>, DbError> {
        let mut query = Query::new(SELECT);
        query.push(" WHERE comments.id = ").bind(id).push(" AND comments.repository_id = ").bind(repository);
        let row: Option<CommentRow> = reader.optional(query.sql(), query.args()).await?;
        Ok(row.map(Comment::from).filter(|comment| number == 0 || comment.issue_number == number))
    }

    /// Returns a page of an issue's comments, oldest first.
    pub(crate) async fn list_issue_comments(
        &self,
        issue: &Issue,
        since_us: Option<i64>,
        page: Page,
    ) -> Result<CommentPage, DbError> {
        let rows = |query: &mut Query| {
            query.push(" WHERE comments.issue_id = ").bind(issue.id);
            if let Some(since_us) = since_us {
                query.push(" AND comments.updated_us >= ").bind(since_us);
            }
            query.push(" ORDER BY comments.id LIMIT ").bind(page.size()).push(" OFFSET ").bind(page.offset());
        };
        let comments = self.comments(page, rows).await?;
        let Some(since_us) = since_us else {
            return Ok(CommentPage { comments, total: issue.comment_count, is_partial: false });
        };
        let sql = "SELECT COUNT(*) FROM comments WHERE issue_id = $1 AND updated_us >= $2";
        let (total,): (i64,) = self.db.one(sql, &args![issue.id, since_us]).await?;
        Ok(CommentPage { comments, total, is_partial: false })
    }

    /// Returns a page of a repository's comments, oldest first. With `since_us`, the list ends
    /// after [`MAX_UNCOUNTED_ROWS`].
    pub(crate) async fn list_repository_comments(
        &self,
        repository: RepositoryId,
        since_us: Option<i64>,
        page: Page,
    ) -> Result<CommentPage, DbError> {
        let Some(since_us) = since_us else {
            let total =
                self.totals(repository, &[List::Comments], &[COMMENT_CLASS]).await?.first().copied().unwrap_or(0);
            let place = (page.offset(), total);
            let place = self.locate(repository, List::Comments, &[COMMENT_CLASS], true, place).await?;
            let Some(place) = place else {
                return Ok(CommentPage { comments: Vec::new(), total, is_partial: false });
            };
            let rows = |query: &mut Query| {
                query.push(" WHERE comments.repository_id = ").bind(repository);
                query.push(" AND comments.sequence >= ").bind(place.block * BLOCK_NUMBERS);
                query.push(" ORDER BY comments.sequence LIMIT ").bind(page.size()).push(" OFFSET ").bind(place.skipped);
            };
            return Ok(CommentPage { comments: self.comments(page, rows).await?, total, is_partial: false });
        };
        let count = "SELECT COUNT(*) FROM (SELECT 1 FROM comments WHERE repository_id = $1 AND updated_us >= $2 LIMIT $3) AS found";
        let (found,): (i64,) = self.db.one(count, &args![repository, since_us, MAX_UNCOUNTED_ROWS + 1]).await?;
        let (total, is_partial) = (found.min(MAX_UNCOUNTED_ROWS), found > MAX_UNCOUNTED_ROWS);
        if page.offset() >= total {
            return Ok(CommentPage { comments: Vec::new(), total, is_partial });
        }
        // A few are found by the time index and sorted. If there are many, reading in sequence
        // finds the first ones soon.
        let rows = |query: &mut Query| {
            query.push(" WHERE comments.repository_id = ").bind(repository);
            query.push(if is_partial { " AND +comments.updated_us >= " } else { " AND comments.updated_us >= " });
            query.bind(since_us).push(if is_partial {
                " ORDER BY comments.sequence"
            } else {
                " ORDER BY +comments.sequence"
            });
            query.push(" LIMIT ").bind(page.size().min(total - page.offset())).push(" OFFSET ").bind(page.offset());
        };
        Ok(CommentPage { comments: self.comments(page, rows).await?, total, is_partial })
    }

    /// Reads a page of comments with long texts cut. `rows` appends the conditions, order and
    /// position.
    async fn comments(&self, page: Page, rows: impl Fn(&mut Query)) -> Result<Vec<Comment>, DbError> {
        let mut texts = Query::new("SELECT comments.body AS text");
        rows(texts.push(FROM));
        let max_bytes = self.listed_text_bytes(page, texts).await?;
        let mut query = Query::new(SELECT_LISTED);
        self.push_text_head(&mut query, "comments.body", max_bytes);
        rows(query.push(FROM));
        let found: Vec<CommentRow> = self.db.all(query.sql(), query.args()).await?;
        Ok(found.into_iter().map(Comment::from).collect())
    }
}
