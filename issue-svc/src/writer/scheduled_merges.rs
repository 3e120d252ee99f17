//! Schedules merges of pull requests, and cancels them.

use ferrite_proto::id::{IssueId, UserId};
use ferrite_proto::issue::TimelineAction;

use super::Write;
use super::pulls::MergeRules;
use crate::error::IssueError;
use crate::model::{FullIssue, Issue, ScheduledMerge};
use crate::store::TimelineEntry;

/// What is asked for when a merge is scheduled.
#[derive(Clone, Debug)]
pub(crate) struct NewScheduledMerge {
    pub(crate) number: i64,
    pub(crate) user: UserId,
    pub(crate) token_id: i64,
    pub(crate) style: i32,
    /// Whether the settings of the repository allow the style.
    pub(crate) is_style_allowed: bool,
    pub(crate) head_id: String,
    pub(crate) message: String,
    pub(crate) author: Option<ferrite_proto::git::CommitIdentity>,
    pub(crate) deletes_branch: bool,
}

impl Write<'_> {
    /// Schedules the merge of an open pull request.
    pub(crate) async fn schedule_merge(&mut self, new: NewScheduledMerge) -> Result<FullIssue, IssueError> {
        let (issue, pull) = self.pull(new.number).await?;
        MergeRules { is_style_allowed: new.is_style_allowed, head_id: &new.head_id }.check(&issue, &pull)?;
        let scheduled = ScheduledMerge {
            issue: issue.id,
            repository: self.repository,
            number: new.number,
            user: new.user,
            token_id: new.token_id,
            style: new.style,
            head_id: new.head_id,
            message: new.message,
            author: new.author,
            deletes_branch: new.deletes_branch,
            created_us: self.now_us,
        };
        if !self.writer.store.insert_scheduled_merge(&mut self.tx, &scheduled).await? {
            return Err(IssueError::MergeScheduled);
        }
        let entry = TimelineEntry::new(TimelineAction::MergeScheduled, new.user, self.now_us);
        let store = &self.writer.store;
        store.add_entries(&mut self.tx, issue.id, &[entry]).await?;
        store.touch(&mut self.tx, issue.id, 0, self.now_us).await?;
        self.complete(Issue { updated_us: self.now_us, ..issue }).await
    }

    /// Cancels the scheduled merge of a pull request, if there is one. `reason` is for the timeline
    /// and empty if a user cancels it.
    pub(crate) async fn cancel_merge(&mut self, issue: Issue, actor: UserId, reason: &str) -> Result<bool, IssueError> {
        if !self.drop_scheduled_merge(issue.id, actor, reason).await? {
            return Ok(false);
        }
        self.writer.store.touch(&mut self.tx, issue.id, 0, self.now_us).await?;
        Ok(true)
    }

    /// Like [`Write::cancel_merge`], for a write that changes the issue anyway.
    pub(super) async fn drop_scheduled_merge(
        &mut self,
        issue: IssueId,
        actor: UserId,
        reason: &str,
    ) -> Result<bool, IssueError> {
        let store = &self.writer.store;
        if !store.delete_scheduled_merge(&mut self.tx, issue).await? {
            return Ok(false);
        }
        let entry = TimelineEntry {
            old_text: reason.to_owned(),
            ..TimelineEntry::new(TimelineAction::MergeCancelled, actor, self.now_us)
        };
        store.add_entries(&mut self.tx, issue, &[entry]).await?;
        Ok(true)
    }
}
