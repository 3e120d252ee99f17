//! Open requests for reviews. They are rows of `reviews` with a state of their own.

use ferrite_db::args;
use ferrite_db::{DbError, Query, Tx};
use ferrite_proto::id::{IssueId, UserId};
use ferrite_proto::issue::ReviewState;
use sqlx_macros::FromRow;

use super::{IssueTable, Reader};
use crate::model::{Issue, NewReviewRequest, PullRequest, Requested, ReviewRequest};

/// The state is a literal, as in the index.
const OPEN: &str = "SELECT id, user_id, team_id, team_name, is_official, commit_id, created_us FROM reviews \
     WHERE issue_id = $1 AND state = 5 ORDER BY id";

#[derive(FromRow)]
struct RequestRow {
    id: i64,
    user_id: i64,
    team_id: i64,
    team_name: String,
    is_official: bool,
    commit_id: String,
    created_us: i64,
}

impl From<RequestRow> for ReviewRequest {
    fn from(row: RequestRow) -> Self {
        Self {
            id: row.id,
            requested: Requested::of_row(row.user_id, row.team_id, row.team_name),
            is_official: row.is_official,
            commit_id: row.commit_id,
            created_us: row.created_us,
        }
    }
}

impl IssueTable {
    /// Returns the open requests of a pull request, oldest first.
    pub(crate) async fn review_requests(
        &self,
        reader: Reader<'_>,
        issue: IssueId,
    ) -> Result<Vec<ReviewRequest>, DbError> {
        let rows: Vec<RequestRow> = reader.all(OPEN, &args![issue]).await?;
        Ok(rows.into_iter().map(ReviewRequest::from).collect())
    }

    /// Adds requests. None of them may be open already.
    pub(crate) async fn add_review_requests(
        &self,
        tx: &mut Tx,
        issue: &Issue,
        pull: &PullRequest,
        new: &[NewReviewRequest],
        now_us: i64,
    ) -> Result<(), DbError> {
        let state = i64::from(i32::from(ReviewState::Requested));
        let mut query = Query::new(
            "INSERT INTO reviews (repository_id, issue_id, user_id, team_id, team_name, state, body, commit_id, merge_base_id, \
             is_official, is_dismissed, comment_count, created_us, submitted_us, updated_us) VALUES ",
        );
        query.bind_rows(new.iter().map(|request| {
            let (user_id, team_id, team_name) = request.requested.columns();
            let (head_id, merge_base_id) = (pull.head_id.as_str(), pull.merge_base_id.as_str());
            args![
                issue.repository,
                issue.id,
                user_id,
                team_id,
                team_name,
                state,
                "",
                head_id,
                merge_base_id,
                request.is_official,
                false,
                0_i64,
                now_us,
                0_i64,
                now_us
            ]
        }));
        tx.execute(query.sql(), query.args()).await.map(drop)
    }

    /// Deletes requests by their ids.
    pub(crate) async fn delete_review_requests(&self, tx: &mut Tx, ids: &[i64]) -> Result<(), DbError> {
        let mut query = Query::new("DELETE FROM reviews WHERE state = 5 AND id IN ");
        query.bind_list(ids.iter().copied());
        tx.execute(query.sql(), query.args()).await.map(drop)
    }

    /// Deletes the open requests to a user and to teams.
    pub(crate) async fn end_review_requests(
        &self,
        tx: &mut Tx,
        issue: IssueId,
        user: UserId,
        team_ids: &[i64],
    ) -> Result<(), DbError> {
        let mut query = Query::new("DELETE FROM reviews WHERE state = 5 AND issue_id = ");
        query.bind(issue).push(" AND ((user_id <> 0 AND user_id = ").bind(user);
        query.push(") OR (user_id = 0 AND team_id IN ").bind_list(team_ids.iter().copied()).push("))");
        tx.execute(query.sql(), query.args()).await.map(drop)
    }
}
