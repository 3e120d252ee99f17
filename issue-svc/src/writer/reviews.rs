//! Reviews. A pending one changes nothing but itself: others see it, and what it refers to, once it
//! is submitted.

use ferrite_proto::error::FieldViolation;
use ferrite_proto::id::{RepositoryId, UserId};
use ferrite_proto::issue::{ReviewState, TimelineAction};
use ferrite_rpc::version::is_conditional;

use super::{TextTargets, Write};
use crate::encode;
use crate::error::IssueError;
use crate::model::{Body, Issue, NewReviewComment, Review, is_verdict};
use crate::store::{MentionSource, Reader, TimelineEntry};

/// Of one pull request. The number is in the error as well.
const MAX_PULL_REVIEWS: i64 = 5_000;
/// Reviews that only users with write permission can add, so that others cannot use up all.
const RESERVED_REVIEWS: i64 = 1_000;
const MAX_REVIEW_COMMENTS: i64 = 500;
/// The texts of the comments of a review, which are read together when it is submitted.
const MAX_REVIEW_TEXT_BYTES: i64 = 8 * 1024 * 1024;

/// What a request adds to the pending review of a user.
#[derive(Clone, Debug)]
pub(crate) struct ReviewDraft {
    pub(crate) author: UserId,
    /// Whether the author can write to the repository.
    pub(crate) is_writer: bool,
    /// Appended to the body that is there.
    pub(crate) body: Body,
    pub(crate) commit_id: String,
    pub(crate) merge_base_id: String,
    pub(crate) comments: Vec<NewReviewComment>,
}

/// How a review is submitted.
#[derive(Clone, Debug)]
pub(crate) struct Submission {
    pub(crate) state: ReviewState,
    pub(crate) is_official: bool,
    /// The teams of the author, whose requests end.
    pub(crate) team_ids: Vec<i64>,
    pub(crate) targets: ReviewTargets,
}

/// What the texts of a review mention.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReviewTargets {
    /// Keys of names in the body.
    pub(crate) body: Vec<String>,
    /// Keys of names in each comment, oldest first.
    pub(crate) comments: Vec<Vec<String>>,
    /// Repository and number, without duplicates.
    pub(crate) issues: Vec<(RepositoryId, i64)>,
}

impl Write<'_> {
    /// Returns a review of a pull request that `viewer` sees.
    pub(crate) async fn review(&mut self, number: i64, id: i64, viewer: UserId) -> Result<Review, IssueError> {
        let (reader, pull) = (Reader::Tx(&mut self.tx), (self.repository, number));
        let review = self.writer.store.review(reader, pull, id, viewer).await?;
        review.ok_or(IssueError::ReviewNotFound)
    }

    /// Returns the pending review of a user.
    pub(crate) async fn pending_review(&mut self, issue: &Issue, user: UserId) -> Result<Option<Review>, IssueError> {
        Ok(self.writer.store.pending_review(Reader::Tx(&mut self.tx), issue.id, user).await?)
    }

    /// Checks the request's precondition against a review.
    pub(crate) fn require_review(&self, review: &Review) -> Result<(), IssueError> {
        if is_conditional() {
            self.tx.require_version(Some(&encode::review(review.clone())))?;
        }
        Ok(())
    }

    /// Adds to the pending review of a user, which is `pending`, or begins one.
    pub(crate) async fn draft_review(
        &mut self,
        issue: &Issue,
        head_id: &str,
        pending: Option<Review>,
        draft: &ReviewDraft,
    ) -> Result<Review, IssueError> {
        let mut review = match pending {
            Some(review) => review,
            None => self.begin_review(issue, head_id, draft).await?,
        };
        draft.commit_id.clone_into(&mut review.commit_id);
        draft.merge_base_id.clone_into(&mut review.merge_base_id);
        review.body = match (review.body.as_str(), draft.body.as_str()) {
            (old, "") => old.to_owned(),
            ("", new) => new.to_owned(),
            (old, new) => Body::parse(format!("{old}\n\n{new}"))?.as_str().to_owned(),
        };
        review.comment_count += i64::try_from(draft.comments.len()).unwrap_or(i64::MAX);
        if review.comment_count > MAX_REVIEW_COMMENTS {
            let message = "a review can have at most 500 comments";
            return Err(FieldViolation::new("comments", "too_many", message).into());
        }
        review.updated_us = self.now_us;
        let store = &self.writer.store;
        store.insert_review_comments(&mut self.tx, &review, &draft.comments, self.now_us).await?;
        store.update_review(&mut self.tx, &review).await?;
        if !draft.comments.is_empty() {
            self.require_review_text("comments", review.id).await?;
        }
        Ok(review)
    }

    async fn begin_review(&mut self, issue: &Issue, head_id: &str, draft: &ReviewDraft) -> Result<Review, IssueError> {
        let store = &self.writer.store;
        let limit = if draft.is_writer { MAX_PULL_REVIEWS } else { MAX_PULL_REVIEWS - RESERVED_REVIEWS };
        if store.review_count(&mut self.tx, issue.id).await? >= limit {
            return Err(IssueError::TooManyReviews);
        }
        let new = Review {
            id: 0,
            repository: issue.repository,
            issue: issue.id,
            number: issue.number,
            user: draft.author,
            team_id: 0,
            team_name: String::new(),
            state: ReviewState::Pending,
            body: String::new(),
            is_truncated: false,
            commit_id: draft.commit_id.clone(),
            merge_base_id: draft.merge_base_id.clone(),
            head_id: head_id.to_owned(),
            is_official: false,
            is_dismissed: false,
            comment_count: 0,
            created_us: self.now_us,
            submitted_us: 0,
            updated_us: self.now_us,
        };
        let id = store.insert_review(&mut self.tx, &new).await?;
        Ok(Review { id, ..new })
    }

    /// Fails with a violation of `field` if the comments of a pending review have too much text.
    pub(super) async fn require_review_text(&mut self, field: &str, review: i64) -> Result<(), IssueError> {
        match self.writer.store.review_text_bytes(&mut self.tx, review).await? > MAX_REVIEW_TEXT_BYTES {
            true => {
                let message = "the comments of a review can have at most 8 MiB of text";
                Err(FieldViolation::new(field, "too_long", message).into())
            }
            false => Ok(()),
        }
    }

    /// Submits a pending review. Requests to its author, and to teams of the author, end.
    pub(crate) async fn submit_review(
        &mut self,
        issue: Issue,
        review: Review,
        submission: Submission,
    ) -> Result<Review, IssueError> {
        require_content(&review, submission.state)?;
        let Submission { state, is_official, team_ids, targets } = submission;
        let (submitted_us, updated_us) = (self.now_us, self.now_us);
        let review = Review { state, is_official, submitted_us, updated_us, ..review };
        let store = &self.writer.store;
        store.update_review(&mut self.tx, &review).await?;
        store.count_review_comments(&mut self.tx, issue.id, review.comment_count).await?;
        store.touch(&mut self.tx, issue.id, 0, self.now_us).await?;
        let entry = TimelineEntry {
            review_id: review.id,
            review_state: i64::from(i32::from(state)),
            ..TimelineEntry::new(TimelineAction::Reviewed, review.user, self.now_us)
        };
        store.add_entries(&mut self.tx, issue.id, &[entry]).await?;
        let ids = store.review_comment_ids(&mut self.tx, review.id).await?;
        let mut mentions = vec![(MentionSource::Review(review.id), targets.body.as_slice())];
        mentions.extend(ids.into_iter().map(MentionSource::Comment).zip(targets.comments.iter().map(Vec::as_slice)));
        store.insert_all_mentions(&mut self.tx, &issue, &mentions).await?;
        let targets = TextTargets { mentions: Vec::new(), issues: targets.issues };
        self.refer(&issue, &targets, review.user).await?;
        self.end_requests(issue.id, review.user, &team_ids).await?;
        let full = self.complete(Issue { updated_us: self.now_us, ..issue }).await?;
        self.tell_review(&full, review.clone(), false);
        Ok(review)
    }

    /// Deletes a review with its comments.
    pub(crate) async fn delete_review(&mut self, issue: Issue, review: Review) -> Result<(), IssueError> {
        let store = &self.writer.store;
        if review.is_pending() {
            return Ok(store.delete_review(&mut self.tx, review.id).await?);
        }
        store.delete_review_mentions(&mut self.tx, issue.id, review.id).await?;
        if review.is_verdict() {
            // An earlier verdict does not come back.
            store.dismiss_earlier(&mut self.tx, &review, self.now_us).await?;
        }
        store.delete_review(&mut self.tx, review.id).await?;
        store.count_review_comments(&mut self.tx, issue.id, -review.comment_count).await?;
        store.touch(&mut self.tx, issue.id, 0, self.now_us).await?;
        let full = self.complete(Issue { updated_us: self.now_us, ..issue }).await?;
        self.tell_review(&full, review, true);
        Ok(())
    }

    /// Dismisses a review that approves or rejects, and earlier ones of the same user if wanted.
    /// Does not dismiss it again if it is dismissed.
    pub(crate) async fn dismiss_review(
        &mut self,
        issue: &Issue,
        review: Review,
        (message, with_priors): (&str, bool),
        actor: UserId,
    ) -> Result<Review, IssueError> {
        if !review.is_verdict() {
            return Err(IssueError::NotDismissible);
        }
        let store = &self.writer.store;
        if with_priors {
            store.dismiss_earlier(&mut self.tx, &review, self.now_us).await?;
        }
        if review.is_dismissed {
            return Ok(review);
        }
        let review = Review { is_dismissed: true, updated_us: self.now_us, ..review };
        store.update_review(&mut self.tx, &review).await?;
        store.touch(&mut self.tx, issue.id, 0, self.now_us).await?;
        let entry = TimelineEntry {
            assignee_id: review.user.0,
            review_id: review.id,
            old_text: message.to_owned(),
            ..TimelineEntry::new(TimelineAction::ReviewDismissed, actor, self.now_us)
        };
        store.add_entries(&mut self.tx, issue.id, &[entry]).await?;
        Ok(review)
    }

    /// Makes a dismissed review count again.
    pub(crate) async fn undismiss_review(
        &mut self,
        issue: &Issue,
        review: Review,
        actor: UserId,
    ) -> Result<Review, IssueError> {
        if !review.is_dismissed {
            return Err(IssueError::NotDismissed);
        }
        let review = Review { is_dismissed: false, updated_us: self.now_us, ..review };
        let store = &self.writer.store;
        store.update_review(&mut self.tx, &review).await?;
        store.touch(&mut self.tx, issue.id, 0, self.now_us).await?;
        let entry = TimelineEntry {
            assignee_id: review.user.0,
            review_id: review.id,
            ..TimelineEntry::new(TimelineAction::ReviewUndismissed, actor, self.now_us)
        };
        store.add_entries(&mut self.tx, issue.id, &[entry]).await?;
        Ok(review)
    }
}

/// Checks that a review says something: only an approval needs no text.
pub(crate) fn require_content(review: &Review, state: ReviewState) -> Result<(), IssueError> {
    if state == ReviewState::Approved || review.comment_count > 0 || !review.body.trim().is_empty() {
        return Ok(());
    }
    Err(FieldViolation::new("body", "required", "must not be blank in a review without comments").into())
}

/// Checks that a user may review a pull request with this outcome.
pub(crate) fn require_reviewable(issue: &Issue, user: UserId, state: ReviewState) -> Result<(), IssueError> {
    if !is_verdict(state) {
        return Ok(());
    }
    if issue.author == user {
        let message = "you cannot approve or reject your own pull request";
        return Err(FieldViolation::new("event", "invalid", message).into());
    }
    if issue.class.is_closed { Err(IssueError::PullClosed) } else { Ok(()) }
}
