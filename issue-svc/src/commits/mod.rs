//! Closing and opening issues by the messages of commits that arrive on default branches.
//!
//! An update of a default branch is stored in the transaction that delivers its event ([`ScanQueue`]). A background task
//! ([`CommitScanner`]) asks git-svc for the commits of the update, parses their messages, asks repo-svc what their pusher may do in the
//! repositories they name, and hands the references to the store, which applies each commit to an issue once.
//!
//! Not here: the grammar of messages (`model::references::commit`), and the right to close an issue (the store).

mod queue;
mod scanner;
mod targets;

#[cfg(test)]
mod tests;

use std::future::Future;

use ferrite_proto::Permission;
use ferrite_proto::id::{RepositoryId, UserId};

pub(crate) use queue::ScanQueue;
pub(crate) use scanner::CommitScanner;

use crate::error::IssueError;
use crate::model::references::commit::CommitAction;
use crate::writer::IssueWriter;

/// The writes that commits cause.
pub(crate) trait ApplyReferences: Clone + Send + Sync + 'static {
    /// Applies references by commits, oldest first, to the issues of `target` in one transaction. `permission` is the level of `actor`
    /// on these issues, at least [`Permission::Read`]. A commit that refers to an issue already has no further effect on it.
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
        self.apply_commits(target, references, actor, permission).await
    }
}
