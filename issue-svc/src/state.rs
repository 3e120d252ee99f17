//! Shared state of all RPCs, built once, with the authorization and lookups that they have in
//! common.

use std::sync::Arc;

use ferrite_markdown::references;
use ferrite_proto::grant::{Grant, Verifier};
use ferrite_proto::id::{RepositoryId, UserId};
use ferrite_rpc::auth::{Authorizer, Caller};
use tonic::Request;

use crate::commits::ScanQueue;
use crate::error::IssueError;
use crate::limits::WriteLimits;
use crate::model::{Comment, FullIssue, Issue, Milestone};
use crate::pulls::Pulls;
use crate::store::IssueTable;
use crate::upstream::RepoClient;
use crate::writer::{IssueWriter, TextTargets};

#[derive(Clone)]
pub(crate) struct AppState {
    pub(crate) store: IssueTable,
    pub(crate) writer: IssueWriter,
    pub(crate) scans: ScanQueue,
    pub(crate) pulls: Pulls,
    pub(crate) authorizer: Authorizer,
    pub(crate) repo: RepoClient,
    pub(crate) limits: WriteLimits,
    /// Verifies the grants in fields of requests.
    pub(crate) verifier: Arc<Verifier>,
}

impl AppState {
    /// Returns the caller's grant for the operation of `request` on a repository's issues. Fails
    /// with [`IssueError::Disabled`] if its issue tracker is disabled.
    pub(crate) async fn authorize<T>(&self, request: &Request<T>, repository: i64) -> Result<Arc<Grant>, IssueError> {
        let grant = self.authorize_settings(request, repository).await?;
        if !grant.issues_enabled {
            return Err(IssueError::Disabled);
        }
        Ok(grant)
    }

    /// Returns the caller's grant for the operation of `request` on an issue or a pull request:
    /// both are switched off apart from each other. Fails with [`IssueError::Disabled`] or
    /// [`IssueError::PullsDisabled`] for one that is off.
    pub(crate) async fn authorize_on<T>(
        &self,
        request: &Request<T>,
        repository: i64,
        number: i64,
    ) -> Result<Arc<Grant>, IssueError> {
        let grant = self.authorize_settings(request, repository).await?;
        if !(grant.issues_enabled && grant.pulls_enabled) {
            // An issue never becomes a pull request, or the other way round.
            let issue = self.store.find(self.store.reader(), RepositoryId(repository), number).await?;
            require_kind(&grant, issue.is_some_and(|issue| issue.class.is_pull_request))?;
        }
        Ok(grant)
    }

    /// As [`Self::authorize_on`], for a comment.
    pub(crate) async fn authorize_on_comment<T>(
        &self,
        request: &Request<T>,
        repository: i64,
        (number, id): (i64, i64),
    ) -> Result<Arc<Grant>, IssueError> {
        let grant = self.authorize_settings(request, repository).await?;
        if !(grant.issues_enabled && grant.pulls_enabled) {
            let comment = self.store.comment(self.store.reader(), RepositoryId(repository), number, id).await?;
            // One that is gone may be that of a repeated request, of the kind that is on.
            require_kind(&grant, comment.map_or(grant.pulls_enabled, |comment| comment.is_pull_request))?;
        }
        Ok(grant)
    }

    /// Returns the caller's grant for the operation of `request` on a repository's labels or
    /// milestones. They remain available while its issue tracker is disabled.
    pub(crate) async fn authorize_settings<T>(
        &self,
        request: &Request<T>,
        repository: i64,
    ) -> Result<Arc<Grant>, IssueError> {
        Ok(self.authorizer.authorize(&Caller::of(request), RepositoryId(repository)).await?)
    }

    /// Returns the caller's grant for the operation of `request` on a repository's pull requests.
    pub(crate) async fn authorize_pulls<T>(
        &self,
        request: &Request<T>,
        repository: i64,
    ) -> Result<Arc<Grant>, IssueError> {
        let grant = self.authorize_settings(request, repository).await?;
        if grant.pulls_enabled { Ok(grant) } else { Err(IssueError::PullsDisabled) }
    }

    pub(crate) async fn full_pull(&self, repository: RepositoryId, number: i64) -> Result<FullIssue, IssueError> {
        let found = self.store.find_full(repository, number).await?;
        found.filter(|full| full.pull_request.is_some()).ok_or(IssueError::PullNotFound)
    }

    pub(crate) async fn issue(&self, repository: RepositoryId, number: i64) -> Result<Issue, IssueError> {
        let issue = self.store.find(self.store.reader(), repository, number).await?;
        issue.ok_or(IssueError::NotFound { number })
    }

    pub(crate) async fn full_issue(&self, repository: RepositoryId, number: i64) -> Result<FullIssue, IssueError> {
        self.store.find_full(repository, number).await?.ok_or(IssueError::NotFound { number })
    }

    pub(crate) async fn comment(&self, repository: RepositoryId, number: i64, id: i64) -> Result<Comment, IssueError> {
        self.store.comment(self.store.reader(), repository, number, id).await?.ok_or(IssueError::CommentNotFound)
    }

    pub(crate) async fn milestone(&self, repository: RepositoryId, id: i64) -> Result<Milestone, IssueError> {
        self.store.milestone(self.store.reader(), repository, id).await?.ok_or(IssueError::MilestoneNotFound)
    }

    /// Returns the milestone with the id, or else with the title, which may be empty.
    pub(crate) async fn milestone_or(
        &self,
        repository: RepositoryId,
        id: i64,
        or_title: &str,
    ) -> Result<Milestone, IssueError> {
        match self.milestone(repository, id).await {
            Err(IssueError::MilestoneNotFound) if !or_title.is_empty() => {
                let named = self.store.milestone_named(self.store.reader(), repository, or_title).await?;
                self.milestone(repository, named.ok_or(IssueError::MilestoneNotFound)?).await
            }
            found => found,
        }
    }

    /// Finds the users and issues that a text of `author` mentions. Asks repo-svc about other
    /// repositories.
    pub(crate) async fn targets(
        &self,
        repository: RepositoryId,
        author: UserId,
        text: &str,
    ) -> Result<TextTargets, IssueError> {
        self.repo.targets(repository, author, references::parse(text)).await
    }
}

/// Fails for an issue, or a pull request, if the repository has none.
fn require_kind(grant: &Grant, is_pull_request: bool) -> Result<(), IssueError> {
    match (is_pull_request, grant.issues_enabled, grant.pulls_enabled) {
        (true, _, true) | (false, true, _) => Ok(()),
        (true, true, false) => Err(IssueError::PullsDisabled),
        (_, false, _) => Err(IssueError::Disabled),
    }
}
