//! Keeps pull requests up to date with their branches.
//!
//! The transaction that receives the event of a push stores what is to do ([`PullQueue`]). A
//! background task ([`PullWorker`]) asks repo-svc whether the commits of the head may still go into
//! the base, lets git-svc copy them, and moves the head. It also finds pull requests that a push to
//! their base has merged. A sweeper asks git-svc about permitted merges whose event is missing.

mod bases;
mod branches;
mod heads;
mod permits;
mod queue;
mod scheduled_merges;
mod sweeper;
#[cfg(test)]
mod tests;
mod worker;

use std::sync::Arc;

use ferrite_core::Clock;
use ferrite_proto::events::{IssueReach, RefsUpdated};
use ferrite_proto::git::{FindLinesRequest, FoundLines, Merge};
use ferrite_proto::id::{RepositoryId, UserId};
use ferrite_proto::repo::Repository;
use ferrite_rpc::service_key::ServiceTokenSource;

use self::bases::unavailable;
use crate::error::IssueError;
use crate::model::Merged;
use crate::upstream::{GitClient, RepoClient};
use crate::writer::{IssueWriter, MergeSource};

pub(crate) use permits::MergeOrder;
pub(crate) use queue::{PullQueue, Update};
pub(crate) use sweeper::MergeSweeper;
pub(crate) use worker::PullWorker;

/// What pull requests need from the other services.
#[derive(Clone, Debug)]
pub(crate) struct Pulls {
    pub(crate) queue: PullQueue,
    pub(crate) repo: RepoClient,
    pub(crate) git: GitClient,
    pub(crate) writer: IssueWriter,
    pub(crate) clock: Clock,
    /// Signs permits for merges.
    pub(crate) permits: Arc<ServiceTokenSource>,
}

impl Pulls {
    /// Applies the merge in an event. A merge that is applied already has no effect.
    pub(crate) async fn apply_merge(&self, repository: RepositoryId, updated: &RefsUpdated) -> Result<(), IssueError> {
        let Some(merge) = &updated.merge else { return Ok(()) };
        let reaches_issues = matches!(updated.issue_reach(), IssueReach::Repository | IssueReach::All);
        self.merge(repository, &merged(merge, reaches_issues), MergeSource::Journal).await
    }

    /// Returns a repository as repo-svc knows it now.
    pub(crate) async fn describe(&self, repository: RepositoryId) -> Result<Repository, IssueError> {
        let described = self.repo.describe(repository).await.map_err(|status| unavailable(&status))?;
        described.ok_or(IssueError::RepositoryDeleted)
    }

    /// Returns whether the lines in `request` exist, in its order, with the parts of the diff that
    /// show them.
    pub(crate) async fn find_lines(&self, request: FindLinesRequest) -> Result<Vec<FoundLines>, IssueError> {
        let described = self.describe(RepositoryId(request.repository_id)).await?;
        self.git.find_lines(&described.store, request).await
    }

    /// Marks a pull request as merged. Ignores numbers that are no pull request.
    async fn merge(
        &self,
        repository: RepositoryId,
        merged: &Merged,
        source: MergeSource<'_>,
    ) -> Result<(), IssueError> {
        let mut write = match self.writer.begin_pull(repository).await {
            Err(IssueError::RepositoryDeleted) => return Ok(()),
            begun => begun?,
        };
        match write.merge(merged, source).await {
            Ok(true) => {}
            Ok(false) | Err(IssueError::PullNotFound) => return Ok(()),
            Err(error) => return Err(error),
        }
        if merged.reaches_issues && merged.user != UserId(0) {
            let closes = Update::Closes { number: merged.number, commit_id: merged.commit_id.clone() };
            let now_us = write.now_us();
            self.queue.record(write.tx(), repository, &closes, merged.user, now_us).await?;
        }
        write.commit(None, ()).await?;
        self.queue.wake();
        Ok(())
    }
}

fn merged(merge: &Merge, reaches_issues: bool) -> Merged {
    Merged {
        number: merge.number,
        head_id: merge.head_id.clone(),
        base_id: merge.base_id.clone(),
        commit_id: merge.merge_commit_id.clone(),
        base_branch: merge.base_branch.clone(),
        user: UserId(merge.user_id),
        reaches_issues,
    }
}
