use ferrite_proto::id::UserId;
use ferrite_rpc::version::is_conditional;

use super::{TextTargets, Write};
use crate::encode;
use crate::error::IssueError;
use crate::model::{Body, Review, ReviewComment};
use crate::store::{FoundReviewComment, MentionSource, Reader};

impl Write<'_> {
    /// Returns a comment of a review that `viewer` sees.
    pub(crate) async fn review_comment(&mut self, id: i64, viewer: UserId) -> Result<FoundReviewComment, IssueError> {
        let reader = Reader::Tx(&mut self.tx);
        let found = self.writer.store.review_comment(reader, self.repository, id, viewer).await?;
        found.ok_or(IssueError::CommentNotFound)
    }

    /// Checks the request's precondition against a comment of a review.
    pub(crate) fn require_review_comment(&self, comment: &ReviewComment) -> Result<(), IssueError> {
        if is_conditional() {
            self.tx.require_version(Some(&encode::review_comment(comment.clone())))?;
        }
        Ok(())
    }

    /// Replaces the text of a comment. `targets` are only used if its review is submitted. Does
    /// nothing if the text is the same.
    pub(crate) async fn change_review_comment(
        &mut self,
        found: FoundReviewComment,
        body: &Body,
        targets: &TextTargets,
        actor: UserId,
    ) -> Result<FoundReviewComment, IssueError> {
        let old = &found.comment;
        if old.body == body.as_str() {
            return Ok(found);
        }
        let store = &self.writer.store;
        store.update_review_comment(&mut self.tx, old.id, body, self.now_us).await?;
        self.touch_review(old, actor, 0).await?;
        if found.is_pending {
            self.require_review_text("body", old.review_id).await?;
        } else {
            let issue = self.issue(old.number).await?;
            let (store, source) = (&self.writer.store, MentionSource::Comment(old.id));
            store.touch(&mut self.tx, issue.id, 0, self.now_us).await?;
            store.delete_mentions(&mut self.tx, issue.id, source).await?;
            store.insert_mentions(&mut self.tx, &issue, source, &targets.mentions).await?;
            self.refer(&issue, targets, actor).await?;
        }
        let body = body.as_str().to_owned();
        let comment = ReviewComment { body, updated_us: self.now_us, ..found.comment };
        Ok(FoundReviewComment { comment, ..found })
    }

    /// Deletes a comment of a review.
    pub(crate) async fn delete_review_comment(
        &mut self,
        found: FoundReviewComment,
        actor: UserId,
    ) -> Result<(), IssueError> {
        let comment = found.comment;
        self.touch_review(&comment, actor, -1).await?;
        let store = &self.writer.store;
        store.delete_review_comment(&mut self.tx, comment.id).await?;
        if !found.is_pending {
            store.delete_mentions(&mut self.tx, comment.issue, MentionSource::Comment(comment.id)).await?;
            store.count_review_comments(&mut self.tx, comment.issue, -1).await?;
            store.touch(&mut self.tx, comment.issue, 0, self.now_us).await?;
        }
        Ok(())
    }

    /// Sets the time of the last change of a comment's review, and adds to its number of comments.
    async fn touch_review(&mut self, comment: &ReviewComment, viewer: UserId, by: i64) -> Result<(), IssueError> {
        let review = self.review(comment.number, comment.review_id, viewer).await?;
        let (comment_count, updated_us) = (review.comment_count + by, self.now_us);
        let review = Review { comment_count, updated_us, ..review };
        Ok(self.writer.store.update_review(&mut self.tx, &review).await?)
    }

    /// Marks a comment as resolved by `resolver`, or as not resolved.
    pub(crate) async fn resolve_review_comment(
        &mut self,
        comment: &ReviewComment,
        resolver: Option<UserId>,
    ) -> Result<(), IssueError> {
        if (comment.resolver == UserId(0)) == resolver.is_none() {
            return Ok(());
        }
        Ok(self.writer.store.set_resolver(&mut self.tx, comment.id, resolver.unwrap_or(UserId(0))).await?)
    }
}
