//! Requests for reviews, and approvals that a push makes stale.

use ferrite_proto::error::FieldViolation;
use ferrite_proto::events::IssueAction;
use ferrite_proto::id::{IssueId, UserId};
use ferrite_proto::issue::TimelineAction;

use super::Write;
use crate::error::IssueError;
use crate::model::{FullIssue, Issue, NewReviewRequest, PullRequest, Requested, ReviewRequest};
use crate::store::{Reader, TimelineEntry};

/// Open requests of a pull request.
const MAX_OPEN_REQUESTS: usize = 50;

impl Write<'_> {
    /// Returns the open requests of a pull request, oldest first.
    pub(crate) async fn review_requests(&mut self, issue: IssueId) -> Result<Vec<ReviewRequest>, IssueError> {
        Ok(self.writer.store.review_requests(Reader::Tx(&mut self.tx), issue).await?)
    }

    /// Asks for reviews of an open pull request. Who is asked already stays asked. `asked` has no
    /// duplicates. Returns the pull request after that, and the requests in the order of `asked`.
    pub(crate) async fn request_reviews(
        &mut self,
        issue: Issue,
        pull: &PullRequest,
        asked: &[NewReviewRequest],
        actor: UserId,
    ) -> Result<(FullIssue, Vec<ReviewRequest>), IssueError> {
        if issue.class.is_closed {
            return Err(IssueError::PullClosed);
        }
        let id = issue.id;
        let open = self.review_requests(id).await?;
        let is_open = |new: &NewReviewRequest| open.iter().any(|request| request.requested.is_same(&new.requested));
        let new: Vec<_> = asked.iter().filter(|new| !is_open(new)).cloned().collect();
        if open.len() + new.len() > MAX_OPEN_REQUESTS {
            let message = "at most 50 reviews can be requested at a time";
            return Err(FieldViolation::new("reviewers", "too_many", message).into());
        }
        let full = if new.is_empty() {
            self.complete(issue).await?
        } else {
            self.writer.store.add_review_requests(&mut self.tx, &issue, pull, &new, self.now_us).await?;
            let requested: Vec<_> = new.into_iter().map(|new| new.requested).collect();
            let actions = (TimelineAction::ReviewRequested, IssueAction::ReviewRequested);
            self.record_requests(issue, actions, &requested, actor).await?
        };
        let open = self.review_requests(id).await?;
        let find = |new: &NewReviewRequest| open.iter().find(|request| request.requested.is_same(&new.requested));
        Ok((full, asked.iter().filter_map(find).cloned().collect()))
    }

    /// Takes open requests of a pull request back.
    pub(crate) async fn remove_review_requests(
        &mut self,
        issue: Issue,
        removed: Vec<ReviewRequest>,
        actor: UserId,
    ) -> Result<(), IssueError> {
        if removed.is_empty() {
            return Ok(());
        }
        let ids: Vec<_> = removed.iter().map(|request| request.id).collect();
        self.writer.store.delete_review_requests(&mut self.tx, &ids).await?;
        let requested: Vec<_> = removed.into_iter().map(|request| request.requested).collect();
        let actions = (TimelineAction::ReviewRequestRemoved, IssueAction::ReviewRequestRemoved);
        self.record_requests(issue, actions, &requested, actor).await.map(drop)
    }

    /// Adds the timeline entries and facts of requests, one of each for a user or team.
    async fn record_requests(
        &mut self,
        issue: Issue,
        (timeline, action): (TimelineAction, IssueAction),
        requested: &[Requested],
        actor: UserId,
    ) -> Result<FullIssue, IssueError> {
        let store = &self.writer.store;
        store.touch(&mut self.tx, issue.id, 0, self.now_us).await?;
        let entry = |requested: &Requested| {
            let (user_id, _, team_name) = requested.columns();
            let entry = TimelineEntry::new(timeline, actor, self.now_us);
            TimelineEntry { assignee_id: user_id, old_text: team_name.to_owned(), ..entry }
        };
        let entries: Vec<_> = requested.iter().map(entry).collect();
        store.add_entries(&mut self.tx, issue.id, &entries).await?;
        let full = self.complete(Issue { updated_us: self.now_us, ..issue }).await?;
        self.tell_requests(action, &full, requested, actor);
        Ok(full)
    }

    /// Ends the open requests to a user who reviewed a pull request, and to the user's teams.
    pub(crate) async fn end_requests(
        &mut self,
        issue: IssueId,
        user: UserId,
        team_ids: &[i64],
    ) -> Result<(), IssueError> {
        Ok(self.writer.store.end_review_requests(&mut self.tx, issue, user, team_ids).await?)
    }

    /// Makes approvals of other commits than the new head count no longer.
    pub(crate) async fn dismiss_stale_approvals(&mut self, issue: IssueId, head_id: &str) -> Result<(), IssueError> {
        Ok(self.writer.store.dismiss_stale_approvals(&mut self.tx, issue, head_id, self.now_us).await?)
    }
}
