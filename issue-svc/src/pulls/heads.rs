//! Brings the head of a pull request up to date with its branch.

use ferrite_proto::git::{SetPullHeadRequest, StageHeadRequest};
use ferrite_proto::id::{RepositoryId, UserId};
use ferrite_proto::repo::CheckPullSourceResponse;

use super::Pulls;
use super::queue::Claim;
use super::worker::UpdateError;
use crate::error::IssueError;
use crate::model::{Issue, PullEnds, PullRequest};
use crate::upstream::StagedHead;
use crate::writer::Write;

/// Why a scheduled merge is cancelled, as the timeline says it.
const PUSHED_BY_OTHER: &str = "somebody who cannot merge pushed to the head";

impl Pulls {
    /// Finds the commits of a pull request of `user` and copies those of the head into the base, if
    /// the user may. Fails if the base has them all.
    pub(crate) async fn stage(&self, ends: &PullEnds, user: UserId) -> Result<StagedHead, IssueError> {
        let source = self.source(ends, user).await?;
        self.stage_allowed(ends, user, &source, true).await
    }

    async fn source(&self, ends: &PullEnds, user: UserId) -> Result<CheckPullSourceResponse, IssueError> {
        self.repo.pull_source(ends.repository, ends.head_repository, user).await
    }

    async fn stage_allowed(
        &self,
        ends: &PullEnds,
        user: UserId,
        source: &CheckPullSourceResponse,
        requires_commits: bool,
    ) -> Result<StagedHead, IssueError> {
        if !source.is_allowed {
            return Err(IssueError::HeadForbidden);
        }
        let request = StageHeadRequest {
            repository_id: ends.repository.0,
            base_branch: ends.base_branch.clone(),
            head_repository_id: ends.head_repository.0,
            head_branch: ends.head_branch.clone(),
            left_bytes: source.left_bytes,
            requires_commits,
        };
        let staged = self.git.stage_head(&source.store, request).await?;
        // Copying takes time, in which the user may have lost the access.
        if self.source(ends, user).await?.is_allowed { Ok(staged) } else { Err(IssueError::HeadForbidden) }
    }

    /// Does the work of a claimed head, and removes the row. A failed one is left to the worker.
    pub(crate) async fn update_claimed_head(&self, claim: &Claim, number: i64) {
        let marked = match self.update_head(claim, number).await {
            Ok(()) => self.queue.finish(claim).await,
            Err(UpdateError::ClaimLost) => Ok(()),
            Err(UpdateError::Failed(error)) => {
                let repo = claim.repository.0;
                tracing::info!(%error, repo.id = repo, "the worker will set the head of a pull request");
                self.queue.release(claim, self.clock.now_us()).await
            }
        };
        if let Err(error) = marked {
            tracing::warn!(%error, repo.id = claim.repository.0, "cannot record the update of a pull request");
        }
        self.queue.wake();
    }

    /// Moves the head to the commit of its branch, and sets the ref of the pull request. The head
    /// stays as it is if the author may no longer bring its commits into the base.
    pub(super) async fn update_head(&self, claim: &Claim, number: i64) -> Result<(), UpdateError> {
        let Some((issue, pull)) = self.open_pull(claim.repository, number).await? else { return Ok(()) };
        let is_known = pull.head_repository_id != 0;
        let head_repository = RepositoryId(if is_known { pull.head_repository_id } else { claim.repository.0 });
        let ends = PullEnds {
            repository: claim.repository,
            base_branch: pull.base_branch,
            head_repository,
            head_branch: pull.head_branch,
        };
        let source = self.source(&ends, issue.author).await?;
        if is_known {
            match self.stage_allowed(&ends, issue.author, &source, false).await {
                Ok(staged) => {
                    let cancels = self.push_cancels(claim, issue.id).await?;
                    self.move_head(claim, number, &staged, cancels).await?;
                }
                Err(IssueError::BranchNotFound { end: "head" }) => self.delete_head(claim, number).await?,
                // Commits that may not go into the base, or cannot be compared with it.
                Err(IssueError::HeadForbidden | IssueError::BranchNotFound { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.require_claim(claim).await?;
        let Some((_, pull)) = self.open_pull(claim.repository, number).await? else { return Ok(()) };
        let request = SetPullHeadRequest {
            repository_id: claim.repository.0,
            number,
            head_id: pull.head_id,
            sequence: pull.head_sequence,
            head_repository_id: if source.is_allowed { pull.head_repository_id } else { 0 },
        };
        Ok(self.git.set_pull_head(&source.store, request).await?)
    }

    /// Follows the branch of a head to its new name.
    pub(super) async fn rename_head(&self, claim: &Claim, number: i64, new_name: &str) -> Result<(), UpdateError> {
        let mut write = self.begin(claim).await?;
        if let Some((issue, pull)) = open(write.pull(number).await)? {
            write.rename_head(&issue, &pull, new_name).await?;
            let (head, now_us) = (super::Update::Head { number }, write.now_us());
            self.queue.record(write.tx(), claim.repository, &head, claim.user, now_us).await?;
            write.commit(None, ()).await?;
        }
        Ok(())
    }

    /// `cancels` is whether the push cancels a scheduled merge. That is in the same transaction, so
    /// that nothing merges the new head before.
    async fn move_head(
        &self,
        claim: &Claim,
        number: i64,
        staged: &StagedHead,
        cancels: bool,
    ) -> Result<(), UpdateError> {
        let mut write = self.begin(claim).await?;
        if let Some((issue, pull)) = open(write.pull(number).await)? {
            if cancels {
                write.cancel_merge(issue.clone(), claim.user, PUSHED_BY_OTHER).await?;
            }
            if staged.dismisses_approvals && pull.head_id != staged.head_id {
                write.dismiss_stale_approvals(issue.id, &staged.head_id).await?;
            }
            let commits = (staged.head_id.as_str(), staged.merge_base_id.as_str());
            let id = issue.id;
            let moved = pull.head_id != staged.head_id;
            write.move_head(issue, &pull, commits, claim.user).await?;
            if moved {
                self.retry_merge(&mut write, (claim.repository, id, number)).await?;
            }
            write.commit(None, ()).await?;
        }
        Ok(())
    }

    async fn delete_head(&self, claim: &Claim, number: i64) -> Result<(), UpdateError> {
        let mut write = self.begin(claim).await?;
        if let Some((issue, _)) = open(write.pull(number).await)? {
            write.delete_head(&issue).await?;
            write.commit(None, ()).await?;
        }
        Ok(())
    }

    /// Begins the effect of a claim. Fails if there was another push since: that has its own row.
    pub(super) async fn begin(&self, claim: &Claim) -> Result<Write<'_>, UpdateError> {
        let mut write = self.writer.begin_pull(claim.repository).await?;
        let now_us = self.clock.now_us();
        match self.queue.extend_in(write.tx(), claim, now_us).await? {
            true => Ok(write),
            false => Err(UpdateError::ClaimLost),
        }
    }

    /// Restarts the lease of a claim.
    pub(super) async fn require_claim(&self, claim: &Claim) -> Result<(), UpdateError> {
        match self.queue.extend(claim, self.clock.now_us()).await? {
            true => Ok(()),
            false => Err(UpdateError::ClaimLost),
        }
    }

    pub(super) async fn open_pull(
        &self,
        repository: RepositoryId,
        number: i64,
    ) -> Result<Option<(Issue, PullRequest)>, IssueError> {
        let store = &self.writer.store;
        let Some(issue) = store.find(store.reader(), repository, number).await? else { return Ok(None) };
        let pull = store.pull(store.reader(), issue.id).await?;
        Ok(pull.filter(|_| !issue.class.is_closed).map(|pull| (issue, pull)))
    }
}

/// Returns a pull request if it is there and open.
pub(super) fn open(
    found: Result<(Issue, PullRequest), IssueError>,
) -> Result<Option<(Issue, PullRequest)>, IssueError> {
    match found {
        Ok((issue, _)) if issue.class.is_closed => Ok(None),
        Ok(found) => Ok(Some(found)),
        Err(IssueError::PullNotFound) => Ok(None),
        Err(error) => Err(error),
    }
}
