//! Applies commit messages to issues: adds timeline entries, and closes or reopens the issues.

use ferrite_markdown::commit::Action;
use ferrite_proto::Permission;
use ferrite_proto::id::{RepositoryId, UserId};
use ferrite_proto::issue::TimelineAction;

use super::issues::Cause;
use super::{IssueWriter, Write};
use crate::error::IssueError;
use crate::model::CommitAction;
use crate::store::{CounterChange, TimelineEntry};

pub(crate) trait ApplyReferences: Clone + Send + Sync + 'static {
    /// Applies references to the issues of `target` in order. A commit acts on an issue once,
    /// however often it arrives. Closing and reopening takes write permission or authorship of the
    /// issue; `permission` is that of `actor`, at least read. After an error, the references before
    /// it remain applied.
    fn apply(
        &self,
        target: RepositoryId,
        references: &[CommitAction],
        actor: UserId,
        permission: Permission,
    ) -> impl Future<Output = Result<(), IssueError>> + Send;
}

impl ApplyReferences for IssueWriter {
    async fn apply(
        &self,
        target: RepositoryId,
        references: &[CommitAction],
        actor: UserId,
        permission: Permission,
    ) -> Result<(), IssueError> {
        for reference in references {
            // One transaction each, because an event reports one change.
            let mut write = self.begin(target, CounterChange::default()).await?;
            match write.apply_commit(reference, actor, permission).await {
                Ok(()) => write.commit(None, ()).await?,
                Err(IssueError::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Write<'_> {
    async fn apply_commit(
        &mut self,
        reference: &CommitAction,
        actor: UserId,
        permission: Permission,
    ) -> Result<(), IssueError> {
        let issue = self.issue(reference.number).await?;
        let entry = TimelineEntry {
            commit_id: reference.commit_id.clone(),
            source_repository_id: reference.source.0,
            ..TimelineEntry::new(TimelineAction::Referenced, actor, self.now_us)
        };
        if self.writer.store.add_references(&mut self.tx, &[issue.id], &entry).await? == 0 {
            return Ok(());
        }
        let is_closed = match reference.action {
            Action::Close => true,
            Action::Reopen => false,
            Action::Mention => return Ok(()),
        };
        if permission < Permission::Write && issue.author != actor {
            return Ok(());
        }
        let mut new = issue.clone();
        new.class.is_closed = is_closed;
        let new = match self.replace(&issue, new, actor, Cause::Commit(reference)).await {
            // A pull request that cannot be reopened stays as it is.
            Err(IssueError::AlreadyMerged | IssueError::PullExists { .. }) => return Ok(()),
            replaced => replaced?,
        };
        if new != issue {
            let new = self.complete(new).await?;
            self.tell_changes(&issue, &new, actor);
        }
        Ok(())
    }
}
