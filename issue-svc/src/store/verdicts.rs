//! What reviewers decided about a pull request.

use ferrite_db::args;
use ferrite_db::{DbError, Tx};
use ferrite_proto::id::{IssueId, UserId};

use super::{IssueTable, Reader};
use crate::model::Verdict;

/// With the users of open requests, no more than repo-svc describes at a time.
const MAX_VERDICTS: i64 = 150;

/// The latest review of each user that approves (3) or rejects (4), unless it is dismissed. First
/// those of users who could write, and of these who reject, so that nobody else can crowd them out.
const STANDING: &str = "SELECT user_id, state, commit_id FROM reviews WHERE issue_id = $1 AND state IN (3, 4) AND NOT is_dismissed \
     AND NOT EXISTS (SELECT 1 FROM reviews AS later WHERE later.issue_id = $1 AND later.user_id = reviews.user_id \
     AND later.state IN (3, 4) AND (later.submitted_us > reviews.submitted_us \
     OR (later.submitted_us = reviews.submitted_us AND later.id > reviews.id))) \
     ORDER BY is_official DESC, state DESC, submitted_us DESC, id DESC LIMIT $2";
const DISMISS_STALE: &str = "UPDATE reviews SET is_dismissed = TRUE, updated_us = $3 WHERE issue_id = $1 AND state = 3 \
     AND NOT is_dismissed AND commit_id <> $2";
const APPROVED: i64 = 3;

impl IssueTable {
    /// Returns what each reviewer says about a pull request, at most [`MAX_VERDICTS`].
    pub(crate) async fn verdicts(&self, reader: Reader<'_>, issue: IssueId) -> Result<Vec<Verdict>, DbError> {
        let rows: Vec<(i64, i64, String)> = reader.all(STANDING, &args![issue, MAX_VERDICTS]).await?;
        let verdict = |(user, state, commit_id): (i64, i64, String)| Verdict {
            user: UserId(user),
            approves: state == APPROVED,
            commit_id,
        };
        Ok(rows.into_iter().map(verdict).collect())
    }

    /// Dismisses the approvals of other commits than the head.
    pub(crate) async fn dismiss_stale_approvals(
        &self,
        tx: &mut Tx,
        issue: IssueId,
        head_id: &str,
        now_us: i64,
    ) -> Result<(), DbError> {
        tx.execute(DISMISS_STALE, &args![issue, head_id, now_us]).await.map(drop)
    }
}
