//! Reviews of pull requests, and requests for them. Pending ones are read for their authors alone.

use ferrite_core::page::Page;
use ferrite_db::args;
use ferrite_db::{DbError, Query, Tx};
use ferrite_proto::id::{IssueId, RepositoryId, UserId};
use ferrite_proto::issue::{ReviewState, TimelineAction};
use sqlx_macros::FromRow;

use super::listed_texts::TextHead;
use super::{IssueTable, Reader};
use crate::model::Review;

/// All columns but the body.
const SELECT: &str = "SELECT reviews.id, reviews.repository_id, reviews.issue_id, issues.number, reviews.user_id, \
     reviews.team_id, reviews.team_name, reviews.state, reviews.commit_id, reviews.merge_base_id, pull_requests.head_id, \
     reviews.is_official, reviews.is_dismissed, reviews.comment_count, reviews.created_us, reviews.submitted_us, \
     reviews.updated_us, ";
const FROM: &str = " FROM reviews JOIN issues ON issues.id = reviews.issue_id \
     JOIN pull_requests ON pull_requests.issue_id = reviews.issue_id";
const INSERT: &str = "INSERT INTO reviews (repository_id, issue_id, user_id, team_id, team_name, state, body, commit_id, \
     merge_base_id, is_official, is_dismissed, comment_count, created_us, submitted_us, updated_us) \
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15) RETURNING id";
const UPDATE: &str = "UPDATE reviews SET state = $2, body = $3, commit_id = $4, merge_base_id = $5, is_official = $6, \
     is_dismissed = $7, comment_count = $8, submitted_us = $9, updated_us = $10 WHERE id = $1";
const DELETE: &str = "DELETE FROM reviews WHERE id = $1";
const COUNT: &str = "SELECT COUNT(*) FROM reviews WHERE issue_id = $1";
const COUNT_VISIBLE: &str = "SELECT COUNT(*) FROM reviews WHERE issue_id = $1 AND (state <> 1 OR user_id = $2)";
/// States 3 and 4 approve and reject.
const DISMISS_EARLIER: &str = "UPDATE reviews SET is_dismissed = TRUE, updated_us = $5 WHERE issue_id = $1 AND user_id = $2 \
     AND state IN (3, 4) AND NOT is_dismissed AND (submitted_us < $3 OR (submitted_us = $3 AND id < $4))";
const HAD_HEAD: &str = "SELECT id FROM timeline WHERE issue_id = $1 AND action = $2 AND old_text = $3 LIMIT 1";

#[derive(FromRow)]
struct ReviewRow {
    id: i64,
    repository_id: i64,
    issue_id: i64,
    number: i64,
    user_id: i64,
    team_id: i64,
    team_name: String,
    state: i64,
    commit_id: String,
    merge_base_id: String,
    head_id: String,
    is_official: bool,
    is_dismissed: bool,
    comment_count: i64,
    created_us: i64,
    submitted_us: i64,
    updated_us: i64,
    body: String,
    #[sqlx(flatten)]
    head: TextHead,
}

impl From<ReviewRow> for Review {
    fn from(row: ReviewRow) -> Self {
        let (body, is_truncated) = row.head.or(row.body);
        let state = i32::try_from(row.state).ok().and_then(|state| ReviewState::try_from(state).ok());
        Self {
            id: row.id,
            repository: RepositoryId(row.repository_id),
            issue: IssueId(row.issue_id),
            number: row.number,
            user: UserId(row.user_id),
            team_id: row.team_id,
            team_name: row.team_name,
            state: state.unwrap_or_default(),
            body,
            is_truncated,
            commit_id: row.commit_id,
            merge_base_id: row.merge_base_id,
            head_id: row.head_id,
            is_official: row.is_official,
            is_dismissed: row.is_dismissed,
            comment_count: row.comment_count,
            created_us: row.created_us,
            submitted_us: row.submitted_us,
            updated_us: row.updated_us,
        }
    }
}

impl IssueTable {
    /// Inserts a review in any state, without comments. Returns its id.
    pub(crate) async fn insert_review(&self, tx: &mut Tx, new: &Review) -> Result<i64, DbError> {
        let args = args![
            new.repository,
            new.issue,
            new.user,
            new.team_id,
            new.team_name.as_str(),
            i32::from(new.state),
            new.body.as_str(),
            new.commit_id.as_str(),
            new.merge_base_id.as_str(),
            new.is_official,
            new.is_dismissed,
            new.comment_count,
            new.created_us,
            new.submitted_us,
            new.updated_us
        ];
        let (id,): (i64,) = tx.one(INSERT, &args).await?;
        Ok(id)
    }

    /// Updates what may change in a review.
    pub(crate) async fn update_review(&self, tx: &mut Tx, review: &Review) -> Result<(), DbError> {
        let args = args![
            review.id,
            i32::from(review.state),
            review.body.as_str(),
            review.commit_id.as_str(),
            review.merge_base_id.as_str(),
            review.is_official,
            review.is_dismissed,
            review.comment_count,
            review.submitted_us,
            review.updated_us
        ];
        tx.execute(UPDATE, &args).await.map(drop)
    }

    /// Deletes a review with its comments.
    pub(crate) async fn delete_review(&self, tx: &mut Tx, id: i64) -> Result<(), DbError> {
        tx.execute(DELETE, &args![id]).await.map(drop)
    }

    /// Dismisses the reviews of the same user that approve or reject and were submitted before
    /// `review`.
    pub(crate) async fn dismiss_earlier(&self, tx: &mut Tx, review: &Review, now_us: i64) -> Result<(), DbError> {
        let args = args![review.issue, review.user, review.submitted_us, review.id, now_us];
        tx.execute(DISMISS_EARLIER, &args).await.map(drop)
    }

    /// Returns a review, or a request, of a pull request. A pending one is only there for its
    /// author.
    pub(crate) async fn review(
        &self,
        reader: Reader<'_>,
        (repository, number): (RepositoryId, i64),
        id: i64,
        viewer: UserId,
    ) -> Result<Option<Review>, DbError> {
        let mut query = Query::new(SELECT);
        query.push("reviews.body").push(FROM).push(" WHERE reviews.id = ").bind(id);
        query.push(" AND reviews.repository_id = ").bind(repository).push(" AND issues.number = ").bind(number);
        push_visible(&mut query, viewer);
        let row: Option<ReviewRow> = reader.optional(query.sql(), query.args()).await?;
        Ok(row.map(Review::from))
    }

    /// Returns the pending review of a user.
    pub(crate) async fn pending_review(
        &self,
        reader: Reader<'_>,
        issue: IssueId,
        user: UserId,
    ) -> Result<Option<Review>, DbError> {
        let mut query = Query::new(SELECT);
        query.push("reviews.body").push(FROM).push(" WHERE reviews.state = 1 AND reviews.issue_id = ").bind(issue);
        query.push(" AND reviews.user_id = ").bind(user);
        let row: Option<ReviewRow> = reader.optional(query.sql(), query.args()).await?;
        Ok(row.map(Review::from))
    }

    /// Returns a page of the reviews of a pull request and of the requests for them, oldest first,
    /// and their number.
    pub(crate) async fn list_reviews(
        &self,
        issue: IssueId,
        viewer: UserId,
        page: Page,
    ) -> Result<(Vec<Review>, i64), DbError> {
        let rows = |query: &mut Query| {
            query.push(" WHERE reviews.issue_id = ").bind(issue);
            push_visible(query, viewer);
            query.push(" ORDER BY reviews.id LIMIT ").bind(page.size()).push(" OFFSET ").bind(page.offset());
        };
        let mut texts = Query::new("SELECT reviews.body AS text");
        rows(texts.push(FROM));
        let max_bytes = self.listed_text_bytes(page, texts).await?;
        let mut query = Query::new(SELECT);
        self.push_text_head(query.push("'' AS body, "), "reviews.body", max_bytes);
        rows(query.push(FROM));
        let found: Vec<ReviewRow> = self.db.all(query.sql(), query.args()).await?;
        let (total,): (i64,) = self.db.one(COUNT_VISIBLE, &args![issue, viewer]).await?;
        Ok((found.into_iter().map(Review::from).collect(), total))
    }

    /// Returns the number of reviews of a pull request, pending ones and requests as well.
    pub(crate) async fn review_count(&self, tx: &mut Tx, issue: IssueId) -> Result<i64, DbError> {
        let (count,): (i64,) = tx.one(COUNT, &args![issue]).await?;
        Ok(count)
    }

    /// Returns whether a commit was the head of a pull request before.
    pub(crate) async fn had_head(&self, issue: IssueId, commit_id: &str) -> Result<bool, DbError> {
        let args = args![issue, i32::from(TimelineAction::HeadMoved), commit_id];
        Ok(self.db.optional::<(i64,)>(HAD_HEAD, &args).await?.is_some())
    }
}

/// Appends the condition that a viewer sees the review, after others.
fn push_visible(query: &mut Query, viewer: UserId) {
    query.push(" AND (reviews.state <> 1 OR reviews.user_id = ").bind(viewer).push(")");
}
