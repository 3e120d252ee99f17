//! References to issues in commit messages: entries of timelines, and issues that are closed or opened again.

use ferrite_markdown::commit::Action;
use ferrite_proto::Permission;
use ferrite_proto::id::{RepositoryId, UserId};
use ferrite_proto::issue::TimelineAction;

use super::{IssueWriter, Write};
use crate::error::IssueError;
use crate::model::CommitAction;
use crate::store::{CounterChange, TimelineEntry};

/// The writes that commits cause.
pub(crate) trait ApplyReferences: Clone + Send + Sync + 'static {
    /// Carries out what commits say about the issues of `target`, in their order. A commit acts on an issue once, however often it
    /// arrives. The state of an issue changes with write permission, and for its poster; `permission`, that of `actor`, is read or
    /// higher.
    ///
    /// # Errors
    /// [`IssueError::RepositoryDeleted`], or a failure of the database. References before it are carried out.
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
            // A transaction for each, because an event tells of one change.
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
        let new = self.replace(&issue, new, actor, Some(reference)).await?;
        if new != issue {
            let new = self.complete(new).await?;
            self.tell_changes(&issue, &new, actor);
        }
        Ok(())
    }
}
