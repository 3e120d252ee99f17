//! A background task that reads the messages of pushed commits and applies their references to
//! issues.

use std::sync::Arc;
use std::time::Duration;

use ferrite_core::writer::count_for;
use ferrite_core::{Clock, Lifecycle};
use ferrite_proto::error::reason;
use ferrite_proto::git::storage_service_client::StorageServiceClient;
use ferrite_proto::git::{ListPushedCommitsRequest, PushedCommit};
use ferrite_proto::repo::resolve_issue_access_request::Account;
use ferrite_proto::repo::{IssueAccess, RepositoryRef};
use ferrite_rpc::grpc::{Channel, StoreChannel, for_store, with_timeout};
use tokio::sync::Semaphore;
use tokio::time::error::Elapsed;
use tokio::time::timeout;
use tonic::{Code, Status};

use super::queue::{Scan, ScanQueue};
use super::targets::{ScannedReferences, Target};
use crate::error::IssueError;
use crate::upstream::RepoClient;
use crate::writer::ApplyReferences;

/// Newest commits of an update whose messages are read.
pub(super) const MAX_SCANNED_COMMITS: i32 = 1_000;
/// References applied before the lease is extended.
pub(super) const MAX_STEP_REFERENCES: usize = 100;
const MAX_CONCURRENT_SCANS: usize = 4;
/// Deadline of each step of a scan: a call, or applying some references. Must be shorter than the
/// lease.
const STEP_TIMEOUT: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Clone, Debug)]
pub(crate) struct CommitScanner<W> {
    queue: ScanQueue,
    git: StoreChannel,
    repo: RepoClient,
    writer: W,
    clock: Clock,
}

#[derive(Debug, thiserror::Error)]
enum ScanError {
    /// The repository, the commit or the user was deleted.
    #[error("{0} no longer exists")]
    Gone(String),
    #[error("call to {service} failed with code {code:?}")]
    Call { service: &'static str, code: Code },
    #[error("cannot apply a reference")]
    Apply(#[from] IssueError),
    #[error("deadline exceeded")]
    TimedOut(#[from] Elapsed),
    /// Another process took over, or the repository was deleted.
    #[error("claim lost")]
    ClaimLost,
}

impl ScanError {
    fn of(service: &'static str, status: &Status) -> Self {
        match reason(status) {
            Some(reason) if status.code() == Code::NotFound => Self::Gone(reason),
            _ => Self::Call { service, code: status.code() },
        }
    }
}

impl<W: ApplyReferences> CommitScanner<W> {
    pub(crate) fn new(queue: ScanQueue, git: StoreChannel, repo: Channel, writer: W, clock: Clock) -> Self {
        Self { queue, git, repo: RepoClient::new(repo), writer, clock }
    }

    pub(crate) fn start(self, life: &Lifecycle) {
        let life2 = life.clone();
        life.spawn("commit scans", async move { self.run(life2).await });
    }

    async fn run(self, life: Lifecycle) {
        let running = Arc::new(Semaphore::new(MAX_CONCURRENT_SCANS));
        while !life.is_stopping() {
            let permit = tokio::select! {
                () = life.stopping() => return,
                permit = Arc::clone(&running).acquire_owned() => permit,
            };
            match self.queue.claim(self.clock.now_us()).await {
                Ok(Some(scan)) => {
                    let (scanner, life2) = (self.clone(), life.clone());
                    life.spawn("commit scan", async move {
                        scanner.process(&scan, &life2).await;
                        drop(permit);
                        // This scan held back the repository's next one.
                        scanner.queue.wake();
                    });
                    continue;
                }
                Ok(None) => {}
                Err(error) => tracing::warn!(%error, "cannot claim commit scans; will retry"),
            }
            tokio::select! {
                () = life.stopping() => {}
                () = self.queue.woken() => {}
                () = tokio::time::sleep(POLL_INTERVAL) => {}
            }
        }
    }

    /// Runs a claimed scan and records the result.
    async fn process(&self, scan: &Scan, life: &Lifecycle) {
        let ended = tokio::select! {
            // The push already counted as a write. What its messages change counts for the pusher
            // as well.
            ended = count_for(scan.user, self.scan(scan)) => ended,
            () = life.stopping() => {
                if let Err(error) = self.queue.release(scan, self.clock.now_us()).await {
                    tracing::warn!(%error, repo.id = %scan.repository, "cannot release an interrupted commit scan");
                }
                return;
            }
        };
        let (result, marked) = match ended {
            Ok(is_applied) => (if is_applied { "applied" } else { "empty" }, self.queue.finish(scan).await),
            Err(ScanError::Gone(reason)) => {
                tracing::info!(reason, repo.id = %scan.repository, "dropped a commit scan");
                ("dropped", self.queue.finish(scan).await)
            }
            Err(ScanError::ClaimLost) => {
                tracing::info!(repo.id = %scan.repository, "lost the claim of a commit scan");
                ("lost", Ok(()))
            }
            Err(error) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    repo.id = %scan.repository,
                    "commit scan failed; will retry"
                );
                ("failed", self.queue.fail(scan, self.clock.now_us()).await)
            }
        };
        metrics::counter!("ferrite_issue_commit_scans_total", "result" => result).increment(1);
        if let Err(error) = marked {
            tracing::warn!(%error, repo.id = %scan.repository, "cannot record the end of a commit scan; will rerun");
        }
    }

    /// Returns whether there were any references to issues that the pusher may see.
    async fn scan(&self, scan: &Scan) -> Result<bool, ScanError> {
        let commits = self.list_commits(scan).await?;
        let references = ScannedReferences::parse(scan, &commits);
        if references.is_empty() {
            return Ok(false);
        }
        let accesses = self.resolve(scan, references.repositories()).await?;
        let targets = references.targets(&accesses);
        for target in &targets {
            self.apply(scan, target).await?;
        }
        Ok(!targets.is_empty())
    }

    /// Gets the commits of a scan from git-svc, oldest first.
    async fn list_commits(&self, scan: &Scan) -> Result<Vec<PushedCommit>, ScanError> {
        let request = ListPushedCommitsRequest {
            repository_id: scan.repository.0,
            old_id: scan.old_id.clone(),
            new_id: scan.new_id.clone(),
            limit: MAX_SCANNED_COMMITS,
        };
        let request = for_store(with_timeout(request, STEP_TIMEOUT), &self.store_of(scan).await?);
        let listed = StorageServiceClient::new(self.git.clone()).list_pushed_commits(request).await;
        Ok(listed.map_err(|status| ScanError::of("git-svc", &status))?.into_inner().commits)
    }

    /// Returns the git store of the repository, or an empty name if there is only one store. Not
    /// cached, because repositories can move.
    async fn store_of(&self, scan: &Scan) -> Result<String, ScanError> {
        if self.git.is_single() {
            return Ok(String::new());
        }
        let store = timeout(STEP_TIMEOUT, self.repo.store_of(scan.repository)).await?;
        let store = store.map_err(|status| ScanError::of("repo-svc", &status))?;
        store.ok_or_else(|| ScanError::Gone("the repository".to_owned()))
    }

    /// Asks repo-svc what the pusher may do to the issues of repositories.
    async fn resolve(&self, scan: &Scan, repositories: Vec<RepositoryRef>) -> Result<Vec<IssueAccess>, ScanError> {
        let resolved = self.repo.access_of(Account::UserId(scan.user.0), repositories);
        let resolved = timeout(STEP_TIMEOUT, resolved).await?;
        Ok(resolved.map_err(|status| ScanError::of("repo-svc", &status))?.accesses)
    }

    /// Applies the references to one repository. After an interruption, the next attempt skips
    /// those already applied.
    async fn apply(&self, scan: &Scan, target: &Target) -> Result<(), ScanError> {
        for references in target.references.chunks(MAX_STEP_REFERENCES) {
            if !self.queue.extend(scan, self.clock.now_us()).await.map_err(IssueError::from)? {
                return Err(ScanError::ClaimLost);
            }
            let applied = self.writer.apply(target.repository, references, scan.user, target.permission);
            match timeout(STEP_TIMEOUT, applied).await? {
                Ok(()) => {}
                Err(IssueError::RepositoryDeleted) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}
