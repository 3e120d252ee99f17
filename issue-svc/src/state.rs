//! Shared state of all RPCs: the services, built once, with the check of the grant of a caller and the look-ups that RPCs share.

use std::sync::Arc;

use ferrite_markdown::references;
use ferrite_proto::grant::Grant;
use ferrite_proto::id::{RepositoryId, UserId};
use ferrite_rpc::auth::{Authorizer, Caller};
use tonic::Request;

use crate::commits::ScanQueue;
use crate::error::IssueError;
use crate::limits::WriteLimits;
use crate::model::{Comment, FullIssue, Issue, Milestone};
use crate::store::IssueTable;
use crate::upstream::RepoClient;
use crate::writer::{IssueWriter, TextTargets};

/// Services that RPCs use.
#[derive(Clone)]
pub(crate) struct AppState {
    pub(crate) store: IssueTable,
    pub(crate) writer: IssueWriter,
    pub(crate) scans: ScanQueue,
    pub(crate) authorizer: Authorizer,
    pub(crate) repo: RepoClient,
    pub(crate) limits: WriteLimits,
}

impl AppState {
    /// Returns the caller's grant for the operation of `request` on the issues of a repository.
    ///
    /// # Errors
    /// [`IssueError::Disabled`] if the repository's issue tracker is switched off, or those of [`Authorizer::authorize`].
    pub(crate) async fn authorize<T>(&self, request: &Request<T>, repository: i64) -> Result<Arc<Grant>, IssueError> {
        let grant = self.authorize_settings(request, repository).await?;
        if !grant.issues_enabled {
            return Err(IssueError::Disabled);
        }
        Ok(grant)
    }

    /// Returns the caller's grant for the operation of `request` on the labels or milestones of a repository, which are there while its
    /// issue tracker is switched off, too.
    ///
    /// # Errors
    /// Those of [`Authorizer::authorize`].
    pub(crate) async fn authorize_settings<T>(
        &self,
        request: &Request<T>,
        repository: i64,
    ) -> Result<Arc<Grant>, IssueError> {
        Ok(self.authorizer.authorize(&Caller::of(request), RepositoryId(repository)).await?)
    }

    /// Returns an issue of a repository.
    ///
    /// # Errors
    /// [`IssueError::NotFound`], or a failure of the database.
    pub(crate) async fn issue(&self, repository: RepositoryId, number: i64) -> Result<Issue, IssueError> {
        let issue = self.store.find(self.store.reader(), repository, number).await?;
        issue.ok_or(IssueError::NotFound { number })
    }

    /// Returns an issue of a repository with all that shows in it.
    ///
    /// # Errors
    /// [`IssueError::NotFound`], or a failure of the database.
    pub(crate) async fn full_issue(&self, repository: RepositoryId, number: i64) -> Result<FullIssue, IssueError> {
        self.store.find_full(repository, number).await?.ok_or(IssueError::NotFound { number })
    }

    /// Returns a comment on an issue.
    ///
    /// # Errors
    /// [`IssueError::CommentNotFound`], or a failure of the database.
    pub(crate) async fn comment(&self, repository: RepositoryId, number: i64, id: i64) -> Result<Comment, IssueError> {
        self.store.comment(self.store.reader(), repository, number, id).await?.ok_or(IssueError::CommentNotFound)
    }

    /// Returns a milestone of a repository.
    ///
    /// # Errors
    /// [`IssueError::MilestoneNotFound`], or a failure of the database.
    pub(crate) async fn milestone(&self, repository: RepositoryId, id: i64) -> Result<Milestone, IssueError> {
        self.store.milestone(self.store.reader(), repository, id).await?.ok_or(IssueError::MilestoneNotFound)
    }

    /// Finds what a text of `author` in a repository mentions and refers to.
    ///
    /// # Errors
    /// When repo-svc, which knows other repositories, does not respond.
    pub(crate) async fn targets(
        &self,
        repository: RepositoryId,
        author: UserId,
        text: &str,
    ) -> Result<TextTargets, IssueError> {
        self.repo.targets(repository, author, references::parse(text)).await
    }
}
