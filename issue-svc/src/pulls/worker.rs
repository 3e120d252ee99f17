//! A background task that does what pushes leave to do for pull requests.

use std::sync::Arc;
use std::time::Duration;

use ferrite_core::Lifecycle;
use ferrite_core::writer::count_for;
use ferrite_db::DbError;
use ferrite_proto::error::{Kind, ServiceError};
use tokio::sync::Semaphore;

use super::Pulls;
use super::queue::{Claim, Update};
use crate::error::IssueError;

/// Repositories at a time.
const MAX_CONCURRENT_UPDATES: usize = 16;
const POLL_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Clone, Debug)]
pub(crate) struct PullWorker(Pulls);

#[derive(Debug, thiserror::Error)]
pub(super) enum UpdateError {
    #[error(transparent)]
    Failed(#[from] IssueError),
    /// There was another push, or the repository was deleted.
    #[error("claim lost")]
    ClaimLost,
}

impl From<DbError> for UpdateError {
    fn from(error: DbError) -> Self {
        Self::Failed(error.into())
    }
}

/// Whether repeating the work cannot help.
fn is_final(error: &IssueError) -> bool {
    matches!(error.kind(), Kind::NotFound | Kind::FailedPrecondition | Kind::PermissionDenied | Kind::InvalidArgument)
}

impl PullWorker {
    pub(crate) fn new(pulls: Pulls) -> Self {
        Self(pulls)
    }

    pub(crate) fn start(self, life: &Lifecycle) {
        let life2 = life.clone();
        life.spawn("pull requests", async move { self.run(life2).await });
    }

    async fn run(self, life: Lifecycle) {
        let Self(pulls) = self;
        let running = Arc::new(Semaphore::new(MAX_CONCURRENT_UPDATES));
        while !life.is_stopping() {
            let permit = tokio::select! {
                () = life.stopping() => return,
                permit = Arc::clone(&running).acquire_owned() => permit,
            };
            match pulls.queue.claim(pulls.clock.now_us()).await {
                Ok(Some(claim)) => {
                    let (pulls, life2) = (pulls.clone(), life.clone());
                    life.spawn("pull request", async move {
                        process(&pulls, &claim, &life2).await;
                        drop(permit);
                        // This row held back the others of the repository.
                        pulls.queue.wake();
                    });
                    continue;
                }
                Ok(None) => {}
                Err(error) => tracing::warn!(%error, "cannot claim updates of pull requests; will retry"),
            }
            drop(permit);
            tokio::select! {
                () = life.stopping() => {}
                () = pulls.queue.woken() => {}
                () = tokio::time::sleep(POLL_INTERVAL) => {}
            }
        }
    }
}

/// Does the work of a claim and records the result.
async fn process(pulls: &Pulls, claim: &Claim, life: &Lifecycle) {
    let (queue, repository) = (&pulls.queue, claim.repository.0);
    let ended = tokio::select! {
        // The push already counted as a write.
        ended = count_for(claim.user, update(pulls, claim)) => ended,
        () = life.stopping() => {
            if let Err(error) = queue.release(claim, pulls.clock.now_us()).await {
                tracing::warn!(%error, repo.id = repository, "cannot release an interrupted update of a pull request");
            }
            return;
        }
    };
    let (result, marked) = match ended {
        Ok(()) => ("applied", queue.finish(claim).await),
        Err(UpdateError::ClaimLost) => ("lost", Ok(())),
        Err(UpdateError::Failed(error)) if is_final(&error) => {
            tracing::warn!(%error, repo.id = repository, update = ?claim.update, "dropped an update of a pull request");
            ("dropped", queue.finish(claim).await)
        }
        Err(UpdateError::Failed(error)) => {
            tracing::warn!(%error, repo.id = repository, "update of a pull request failed; will retry");
            ("failed", queue.fail(claim, pulls.clock.now_us()).await)
        }
    };
    metrics::counter!("ferrite_issue_pull_updates_total", "result" => result).increment(1);
    if let Err(error) = marked {
        tracing::warn!(%error, repo.id = repository, "cannot record the update of a pull request; will rerun");
    }
}

async fn update(pulls: &Pulls, claim: &Claim) -> Result<(), UpdateError> {
    match &claim.update {
        Update::Head { number } => pulls.update_head(claim, *number).await,
        Update::HeadRenamed { number, new_name } => pulls.rename_head(claim, *number, new_name).await,
        Update::Base { branch, old_id, new_id } => pulls.update_base(claim, branch, (old_id, new_id)).await,
        Update::BaseRenamed { branch, new_name } => pulls.rename_base(claim, branch, new_name).await,
        Update::Closes { number, commit_id } => pulls.apply_closing_words(claim, *number, commit_id).await,
        Update::Scheduled { number } => pulls.merge_scheduled(claim, *number).await,
    }
}
