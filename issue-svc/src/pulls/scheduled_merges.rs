//! Does scheduled merges, with the rights that their users have at that moment.
//!
//! A merge is tried after each status of the head, each review, each push to the head, and after
//! [`RETRY_AGE`] in any case: the protection of the branch may have changed.

use std::time::Duration;

use ferrite_core::{Lifecycle, micros};
use ferrite_db::{DbError, Tx};
use ferrite_proto::git::{DeleteBranchRequest, MergePullRequest};
use ferrite_proto::id::{IssueId, RepositoryId, UserId};
use ferrite_proto::operation;
use ferrite_rpc::auth::AuthError;

use super::Pulls;
use super::heads::open;
use super::permits::MergeOrder;
use super::queue::{Claim, Update};
use super::worker::UpdateError;
use crate::error::IssueError;
use crate::model::{PullRequest, ScheduledMerge, allows_style};
use crate::upstream::MergeRefusal;
use crate::writer::{MergeRules, Write};

const ROUND_INTERVAL: Duration = Duration::from_secs(60);
/// A merge that was not tried for this long is tried again.
const RETRY_AGE: Duration = Duration::from_secs(300);
/// Merges tried again per round.
const MAX_RETRIES: i64 = 100;
/// Pull requests with the same head that a status makes try again.
const MAX_OF_COMMIT: i64 = 100;

/// Why a scheduled merge is cancelled, as the timeline says it.
const RIGHTS_LOST: &str = "its access token can no longer merge";
const USER_RIGHTS_LOST: &str = "its user can no longer merge";
const HEAD_MOVED: &str = "the head has moved";
const PULLS_OFF: &str = "pull requests were switched off";
const STYLE_NOT_ALLOWED: &str = "the settings no longer allow this style of merging";

impl Pulls {
    /// Tries the scheduled merges of pull requests with this head again.
    pub(crate) async fn record_status(
        &self,
        tx: &mut Tx,
        repository: RepositoryId,
        commit_id: &str,
        now_us: i64,
    ) -> Result<(), DbError> {
        let numbers = self.writer.store.scheduled_merges_of(tx, repository, commit_id, MAX_OF_COMMIT).await?;
        for number in numbers {
            self.queue.record(tx, repository, &Update::Scheduled { number }, UserId(0), now_us).await?;
        }
        Ok(())
    }

    /// Tries the scheduled merge of a pull request again, if there is one, after the write.
    pub(crate) async fn retry_merge(
        &self,
        write: &mut Write<'_>,
        (repository, issue, number): (RepositoryId, IssueId, i64),
    ) -> Result<(), DbError> {
        let now_us = write.now_us();
        if self.writer.store.has_scheduled_merge(write.tx(), issue).await? {
            self.queue.record(write.tx(), repository, &Update::Scheduled { number }, UserId(0), now_us).await?;
        }
        Ok(())
    }

    /// Whether a push to the head cancels the scheduled merge: its user cannot write to the base.
    pub(super) async fn push_cancels(&self, claim: &Claim, issue: IssueId) -> Result<bool, IssueError> {
        let store = &self.writer.store;
        if store.scheduled_merge(store.reader(), issue).await?.is_none() {
            return Ok(false);
        }
        let asked = self.repo.reviewers(claim.repository, &[], &[claim.user.0], &[]).await?;
        Ok(!asked.users.iter().any(|user| user.user_id != 0 && user.can_write))
    }

    /// Tries a scheduled merge. What is still missing leaves it as it is.
    pub(super) async fn merge_scheduled(&self, claim: &Claim, number: i64) -> Result<(), UpdateError> {
        let Some((issue, pull)) = self.open_pull(claim.repository, number).await? else { return Ok(()) };
        let store = &self.writer.store;
        let Some(scheduled) = store.scheduled_merge(store.reader(), issue.id).await? else { return Ok(()) };
        if !scheduled.head_id.is_empty() && scheduled.head_id != pull.head_id {
            return self.cancel(claim, number, HEAD_MOVED).await;
        }
        let access = self.repo.renew_access(claim.repository, asker(&scheduled), operation::MERGE_PULL).await;
        let access = match access {
            Ok(access) => access,
            Err(AuthError::Unavailable) => return Err(IssueError::from(AuthError::Unavailable).into()),
            Err(_) => return self.cancel(claim, number, rights_lost(&scheduled)).await,
        };
        if access.pulls.as_ref().is_none_or(|pulls| !pulls.has_pulls) {
            return self.cancel(claim, number, PULLS_OFF).await;
        }
        let is_style_allowed = allows_style(access.pulls.as_ref(), scheduled.style);
        let order = MergeOrder {
            number,
            style: scheduled.style,
            user: scheduled.user,
            rules: MergeRules { is_style_allowed, head_id: &pull.head_id },
            is_scheduled: true,
        };
        let permit = match self.permit(claim.repository, order).await {
            Ok(permitted) => permitted.permit,
            Err(IssueError::StyleNotAllowed) => return self.cancel(claim, number, STYLE_NOT_ALLOWED).await,
            // It waits until the pull request is ready; a newer head has a row of its own.
            Err(IssueError::IsDraft | IssueError::HeadMoved) => return Ok(()),
            Err(
                IssueError::AlreadyMerged
                | IssueError::MergeNotScheduled
                | IssueError::PullClosed
                | IssueError::PullNotFound,
            ) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        self.require_claim(claim).await?;
        let request = MergePullRequest {
            repository_id: claim.repository.0,
            permit,
            message: scheduled.message.clone(),
            author: scheduled.author.clone(),
        };
        match self.git.merge_pull(&access, request).await {
            Ok(_) => {}
            Err(MergeRefusal::Waits) => return Ok(()),
            Err(MergeRefusal::RightsLost) => return self.cancel(claim, number, rights_lost(&scheduled)).await,
            Err(MergeRefusal::Failed(error)) => return Err(error.into()),
        }
        if scheduled.deletes_branch
            && let Err(error) = self.delete_merged_head(&scheduled, &pull).await
        {
            tracing::debug!(%error, repo.id = claim.repository.0, "the head branch of a merged pull request stays");
        }
        Ok(())
    }

    /// Deletes the head branch, unless another open pull request has it.
    async fn delete_merged_head(&self, scheduled: &ScheduledMerge, pull: &PullRequest) -> Result<(), IssueError> {
        let store = &self.writer.store;
        if store.is_head_shared(store.reader(), scheduled.issue).await? {
            return Ok(());
        }
        let repository = RepositoryId(pull.head_repository_id);
        let access = self.repo.renew_access(repository, asker(scheduled), operation::DELETE_BRANCH).await?;
        let request = DeleteBranchRequest {
            repository_id: repository.0,
            name: pull.head_branch.clone().into_bytes(),
            commit_id: pull.head_id.clone(),
        };
        self.git.delete_branch(&access, request).await
    }

    async fn cancel(&self, claim: &Claim, number: i64, reason: &str) -> Result<(), UpdateError> {
        let mut write = self.begin(claim).await?;
        if let Some((issue, _)) = open(write.pull(number).await)?
            && write.cancel_merge(issue, UserId(0), reason).await?
        {
            write.commit(None, ()).await?;
        }
        Ok(())
    }

    /// Tries merges again that nothing has made try for a while, until the service stops.
    pub(crate) async fn retry_scheduled(self, life: Lifecycle) {
        while !life.is_stopping() {
            life.pause(ROUND_INTERVAL).await;
            if let Err(error) = self.retry_round().await {
                tracing::warn!(%error, "cannot look for scheduled merges; will retry");
            }
        }
    }

    pub(super) async fn retry_round(&self) -> Result<(), DbError> {
        let store = &self.writer.store;
        let now_us = self.clock.now_us();
        let before_us = now_us.saturating_sub(micros(RETRY_AGE));
        // Read first, so that nothing to do does not occupy SQLite's single writer.
        if !store.has_stale_merges(before_us).await? {
            return Ok(());
        }
        let mut tx = store.db().begin().await?;
        for (repository, number, user) in store.claim_stale_merges(&mut tx, (before_us, now_us), MAX_RETRIES).await? {
            self.queue.record(&mut tx, repository, &Update::Scheduled { number }, user, now_us).await?;
        }
        tx.commit().await?;
        self.queue.wake();
        Ok(())
    }
}

/// Whose access a merge needs: that of the token, or that of the user for a merge that was scheduled
/// within a session.
fn asker(scheduled: &ScheduledMerge) -> (i64, UserId) {
    (scheduled.token_id, scheduled.user)
}

fn rights_lost(scheduled: &ScheduledMerge) -> &'static str {
    if scheduled.token_id == 0 { USER_RIGHTS_LOST } else { RIGHTS_LOST }
}
