use ferrite_proto::events::CommentAction;
use ferrite_proto::id::UserId;
use ferrite_rpc::version::is_conditional;

use super::{TextTargets, Write};
use crate::encode;
use crate::error::IssueError;
use crate::model::{Body, Comment, Issue};
use crate::store::{COMMENT_CLASS, List, MentionSource, Reader, TallyChanges};

impl Write<'_> {
    /// Adds a comment to an issue. The write must have begun with one more comment.
    pub(crate) async fn add_comment(
        &mut self,
        issue: &Issue,
        author: UserId,
        body: &Body,
        targets: &TextTargets,
    ) -> Result<Comment, IssueError> {
        let (sequence, now_us) = (self.counters.last_comment, self.now_us);
        let store = &self.writer.store;
        let comment = store.insert_comment(&mut self.tx, issue, author, body, sequence, now_us).await?;
        store.touch(&mut self.tx, issue.id, 1, now_us).await?;
        let mut changes = TallyChanges::default();
        changes.add(List::Comments, COMMENT_CLASS, sequence, 1);
        store.tally(&mut self.tx, self.repository, changes).await?;
        let source = MentionSource::Comment(comment.id);
        store.insert_mentions(&mut self.tx, issue, source, &targets.mentions).await?;
        self.refer(issue, targets, author).await?;
        let issue = Issue { comment_count: issue.comment_count + 1, updated_us: now_us, ..issue.clone() };
        self.tell_comment(CommentAction::Created, issue, comment.clone(), None, author).await?;
        Ok(comment)
    }

    /// Replaces the text of a comment. Does nothing if the text is the same.
    pub(crate) async fn change_comment(
        &mut self,
        comment: Comment,
        body: &Body,
        targets: &TextTargets,
        actor: UserId,
    ) -> Result<Comment, IssueError> {
        if comment.body == body.as_str() {
            return Ok(comment);
        }
        let issue = self.issue(comment.issue_number).await?;
        let store = &self.writer.store;
        store.update_comment(&mut self.tx, comment.id, body, self.now_us).await?;
        store.touch(&mut self.tx, issue.id, 0, self.now_us).await?;
        let source = MentionSource::Comment(comment.id);
        store.delete_mentions(&mut self.tx, issue.id, source).await?;
        store.insert_mentions(&mut self.tx, &issue, source, &targets.mentions).await?;
        self.refer(&issue, targets, actor).await?;
        let issue = Issue { updated_us: self.now_us, ..issue };
        let changed = Comment { body: body.as_str().to_owned(), updated_us: self.now_us, ..comment.clone() };
        self.tell_comment(CommentAction::Edited, issue, changed.clone(), Some(&comment.body), actor).await?;
        Ok(changed)
    }

    pub(crate) async fn delete_comment(&mut self, comment: Comment, actor: UserId) -> Result<(), IssueError> {
        let issue = self.issue(comment.issue_number).await?;
        let store = &self.writer.store;
        store.delete_reactions(&mut self.tx, issue.id, comment.id).await?;
        store.delete_comment(&mut self.tx, comment.id).await?;
        store.touch(&mut self.tx, issue.id, -1, self.now_us).await?;
        let mut changes = TallyChanges::default();
        changes.add(List::Comments, COMMENT_CLASS, comment.sequence, -1);
        store.tally(&mut self.tx, self.repository, changes).await?;
        store.delete_mentions(&mut self.tx, issue.id, MentionSource::Comment(comment.id)).await?;
        let issue = Issue { comment_count: issue.comment_count - 1, updated_us: self.now_us, ..issue };
        self.tell_comment(CommentAction::Deleted, issue, comment, None, actor).await
    }

    /// Returns a comment of the repository. If `number` is not zero, the comment must be on that
    /// issue.
    pub(crate) async fn comment(&mut self, number: i64, id: i64) -> Result<Comment, IssueError> {
        let reader = Reader::Tx(&mut self.tx);
        let comment = self.writer.store.comment(reader, self.repository, number, id).await?;
        comment.ok_or(IssueError::CommentNotFound)
    }

    /// Checks the request's precondition against a comment.
    pub(crate) fn require_comment(&self, comment: &Comment) -> Result<(), IssueError> {
        if is_conditional() {
            self.tx.require_version(Some(&encode::comment(comment.clone())))?;
        }
        Ok(())
    }
}
