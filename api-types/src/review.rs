//! Reviews of pull requests, and their comments on lines.

use ferrite_proto::issue;
use serde::Serialize;

use super::convert::{MissingField, Time};
use super::user::{Accounts, User};
use crate::LongTexts;
use crate::links::RepositoryLinks;

crate::word_shape! {
    /// What a review says.
    #[derive(Clone, Copy, Debug)]
    pub enum ReviewState {
        /// Not submitted yet; shown to its author alone.
        Pending = "PENDING",
        /// A remark without a verdict.
        Comment = "COMMENT",
        /// The changes can be merged.
        Approved = "APPROVED",
        /// The changes should not be merged as they are.
        RequestChanges = "REQUEST_CHANGES",
        /// A request for a review.
        RequestReview = "REQUEST_REVIEW"
    }
}

crate::shape! {
    /// A team that is asked for a review.
    #[derive(Clone, Debug, Serialize)]
    pub struct ReviewTeam {
        id: i64,
        /// The name when it was asked.
        name: String,
    }
}

crate::shape! {
    /// A review of a pull request, or a request for one.
    #[derive(Clone, Debug, Serialize)]
    pub struct Review {
        id: i64,
        /// Who reviews, or was asked. Null for a team.
        user: Option<User>,
        /// The team that was asked. Null for a user.
        team: Option<ReviewTeam>,
        state: ReviewState,
        body: String,
        /// True if `body` is cut off.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        truncated: bool,
        /// The commit that was reviewed. For a request, the head at that time.
        commit_id: String,
        /// True if the head is another commit now.
        stale: bool,
        /// True if the reviewer could write to the repository at that time.
        official: bool,
        /// True if it counts no longer.
        dismissed: bool,
        /// The number of comments on lines.
        comments_count: i64,
        /// Null if it is pending, and for requests.
        submitted_at: Option<Time>,
        updated_at: Time,
        html_url: String,
        /// The page of the pull request.
        pull_request_url: String,
    }
}

crate::word_shape! {
    /// A side of a diff.
    #[derive(Clone, Copy, Debug)]
    enum Side {
        Old = "old",
        New = "new"
    }
}

crate::shape! {
    /// A comment on lines of a file.
    #[derive(Clone, Debug, Serialize)]
    pub struct ReviewComment {
        id: i64,
        user: User,
        body: String,
        /// True if `body` is cut off.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        truncated: bool,
        /// Who resolved it. Null if nobody has.
        resolver: Option<User>,
        pull_request_review_id: i64,
        created_at: Time,
        updated_at: Time,
        path: String,
        /// The side of the diff that the lines are on.
        side: Side,
        /// The last line in the file of the head, from 1. 0 for the old side, and if the lines have
        /// changed since.
        position: i64,
        /// The last line when the comment was written.
        original_position: i64,
        /// The number of lines.
        line_count: i64,
        /// True if the lines have changed since.
        outdated: bool,
        /// The head that the comment is shown at.
        commit_id: String,
        /// The commit that was reviewed.
        original_commit_id: String,
        /// The lines of the diff up to the last one, as they were then. Empty if the diff did not show
        /// them.
        diff_hunk: String,
        html_url: String,
        /// The page of the pull request.
        pull_request_url: String,
    }
}

impl ReviewState {
    /// Converts a state.
    ///
    /// # Errors
    /// If it is missing.
    pub fn new(state: issue::ReviewState) -> Result<Self, MissingField> {
        Ok(match state {
            issue::ReviewState::Pending => Self::Pending,
            issue::ReviewState::Commented => Self::Comment,
            issue::ReviewState::Approved => Self::Approved,
            issue::ReviewState::ChangesRequested => Self::RequestChanges,
            issue::ReviewState::Requested => Self::RequestReview,
            issue::ReviewState::Unspecified => return Err(MissingField("state")),
        })
    }
}

impl From<issue::ReviewTeam> for ReviewTeam {
    fn from(team: issue::ReviewTeam) -> Self {
        Self { id: team.id, name: team.name }
    }
}

impl Review {
    /// Converts a review. `accounts` has its user.
    ///
    /// # Errors
    /// If the state or a time is missing.
    pub fn new(review: issue::Review, accounts: &Accounts, urls: &RepositoryLinks) -> Result<Self, MissingField> {
        let page = urls.issue_html(review.pull_number, true);
        Ok(Self {
            id: review.id,
            user: (review.user_id != 0).then(|| accounts.by_id(review.user_id, urls.site())),
            state: ReviewState::new(review.state())?,
            team: review.team.map(ReviewTeam::from),
            body: review.body,
            truncated: review.is_truncated,
            commit_id: review.commit_id,
            stale: review.is_stale,
            official: review.is_official,
            dismissed: review.is_dismissed,
            comments_count: review.comment_count,
            submitted_at: Time::optional(review.submit_time, "submit_time")?,
            updated_at: Time::new(review.update_time, "update_time")?,
            html_url: format!("{page}#pullrequestreview-{}", review.id),
            pull_request_url: page,
        })
    }
}

impl ReviewComment {
    /// Returns the ids of the accounts in a comment.
    pub fn account_ids(comment: &issue::ReviewComment) -> impl Iterator<Item = i64> + use<> {
        [comment.user_id, comment.resolver_id].into_iter().filter(|id| *id != 0)
    }

    /// Converts a comment. `line` is the last of its lines now, on its side of the diff; `None` if
    /// they have changed. `head_id` is the head of the pull request.
    ///
    /// # Errors
    /// If a time is missing.
    pub fn new(
        comment: issue::ReviewComment,
        line: Option<i32>,
        head_id: &str,
        accounts: &Accounts,
        urls: &RepositoryLinks,
    ) -> Result<Self, MissingField> {
        let user = |id| accounts.by_id(id, urls.site());
        Ok(Self {
            id: comment.id,
            user: user(comment.user_id),
            body: comment.body,
            truncated: comment.is_truncated,
            resolver: (comment.resolver_id != 0).then(|| user(comment.resolver_id)),
            pull_request_review_id: comment.review_id,
            created_at: Time::new(comment.create_time, "create_time")?,
            updated_at: Time::new(comment.update_time, "update_time")?,
            path: comment.path,
            side: if comment.is_old_side { Side::Old } else { Side::New },
            position: line.filter(|_| !comment.is_old_side).unwrap_or_default().into(),
            original_position: comment.line.into(),
            line_count: comment.line_count.into(),
            outdated: line.is_none(),
            commit_id: head_id.to_owned(),
            original_commit_id: comment.commit_id,
            diff_hunk: comment.diff_hunk,
            html_url: urls.comment_html(comment.pull_number, true, comment.id),
            pull_request_url: urls.issue_html(comment.pull_number, true),
        })
    }
}

impl LongTexts for Review {
    fn for_each_text(&mut self, visit: &mut dyn FnMut(&mut String, &mut bool)) {
        visit(&mut self.body, &mut self.truncated);
    }
}

impl LongTexts for ReviewComment {
    fn for_each_text(&mut self, visit: &mut dyn FnMut(&mut String, &mut bool)) {
        visit(&mut self.body, &mut self.truncated);
    }
}
