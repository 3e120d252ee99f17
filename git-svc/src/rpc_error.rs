//! The error of git-svc's RPCs. It wraps the errors of the git core, the database and the other
//! parts.

use std::time::Duration;

use ferrite_db::{DbError, idempotency::IdempotencyError};
use ferrite_events::DeliveryError;
use ferrite_proto::error::{FieldViolation, Kind, ServiceError, first_violation, to_status};
use ferrite_rpc::auth::AuthError;
use git_store::types::{
    error::{Denial, GitError},
    name::BranchName,
};
use tonic::Status;

/// One of the two branches of a pull request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PullEnd {
    Base,
    Head,
}

impl PullEnd {
    fn name(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::Head => "head",
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum RpcError {
    #[error(transparent)]
    Auth(#[from] AuthError),
    #[error(transparent)]
    Git(GitError),
    /// There is no branch of this name; one that had it has the name in the error now.
    #[error("branch was renamed")]
    BranchRenamed(BranchName),
    /// The repository or branch of one end of a pull request is missing.
    #[error("{}: {error}", .end.name())]
    PullEnd { end: PullEnd, error: GitError },
    /// The permit to merge is missing, expired or for another request.
    #[error("not a valid permit for this merge")]
    BadPermit,
    #[error("the pull request was merged already")]
    AlreadyMerged,
    /// The pull request is not merged, or a push merged it.
    #[error("no merge of this pull request is known")]
    MergeNotFound,
    /// The rules of the base forbid the merge. Not the error of a push: clients tell by it that they
    /// must not try again as they are.
    #[error("protected branch: {0}")]
    MergeDenied(Denial),
    /// Has the names of some files.
    #[error("there are conflicts in {0}")]
    MergeConflict(String),
    /// Pushes kept moving the base while it was merged.
    #[error("the base branch keeps moving, try again")]
    BaseMoved,
    #[error("the head branch has moved")]
    HeadMoved,
    /// Fields of the request are invalid.
    #[error("{}", first_violation(.0))]
    Fields(Vec<FieldViolation>),
    /// The idempotency key was used for a different request, or could not be checked.
    #[error(transparent)]
    Idempotency(#[from] IdempotencyError),
    #[error(transparent)]
    Delivery(#[from] DeliveryError),
    #[error("{}", .0.message())]
    Store(#[source] DbError),
}

/// Errors caused by a full disk become `StoreFull`.
impl From<GitError> for RpcError {
    fn from(error: GitError) -> Self {
        Self::Git(error.or_full())
    }
}

/// A full database disk becomes `StoreFull`: it may be the disk of the store.
impl From<DbError> for RpcError {
    fn from(error: DbError) -> Self {
        if !error.is_full() {
            return Self::Store(error);
        }
        metrics::counter!("ferrite_git_store_full_total").increment(1);
        tracing::warn!(%error, "the disk of the database is full");
        Self::Git(GitError::StoreFull)
    }
}

impl RpcError {
    fn inner(&self) -> Option<&dyn ServiceError> {
        match self {
            Self::Auth(error) => Some(error),
            Self::Git(error) | Self::PullEnd { error, .. } => Some(error),
            Self::Idempotency(error) => Some(error),
            Self::Delivery(error) => Some(error),
            Self::BranchRenamed(_)
            | Self::BadPermit
            | Self::AlreadyMerged
            | Self::MergeNotFound
            | Self::MergeDenied(_)
            | Self::MergeConflict(_)
            | Self::BaseMoved
            | Self::HeadMoved
            | Self::Fields(_)
            | Self::Store(_) => None,
        }
    }

    /// Logs the cause of an internal error, which the caller's status leaves out.
    pub(crate) fn log(&self) {
        if self.kind() != Kind::Internal {
            return;
        }
        tracing::error!(error = %self, cause = self.causes(), "a call failed");
    }

    /// Names the end of a pull request whose repository or branch is missing.
    pub(crate) fn at(self, end: PullEnd) -> Self {
        match self {
            Self::Git(error @ (GitError::RepositoryNotFound | GitError::BranchNotFound)) => {
                Self::PullEnd { end, error }
            }
            other => other,
        }
    }

    /// Returns the chain of causes as text, outermost first.
    pub(crate) fn causes(&self) -> String {
        let causes = std::iter::successors(std::error::Error::source(self), |cause| cause.source());
        causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
    }
}

impl ServiceError for RpcError {
    fn classify(&self) -> (Kind, &'static str) {
        match self {
            Self::BranchRenamed(_) => (Kind::NotFound, "BRANCH_RENAMED"),
            Self::BadPermit => (Kind::PermissionDenied, "BAD_PERMIT"),
            Self::AlreadyMerged => (Kind::FailedPrecondition, "ALREADY_MERGED"),
            Self::MergeNotFound => (Kind::NotFound, "MERGE_NOT_FOUND"),
            Self::MergeDenied(Denial::Merger) => (Kind::PermissionDenied, "MERGE_FORBIDDEN"),
            Self::MergeDenied(_) => (Kind::PermissionDenied, "PROTECTED_BRANCH"),
            Self::MergeConflict(_) => (Kind::FailedPrecondition, "MERGE_CONFLICT"),
            Self::BaseMoved => (Kind::Aborted, "BASE_MOVED"),
            Self::HeadMoved => (Kind::Aborted, "HEAD_MOVED"),
            Self::Fields(_) => (Kind::InvalidArgument, "INVALID_FIELDS"),
            Self::Store(error) => error.classify(),
            _ => self.inner().map_or((Kind::Internal, "INTERNAL"), ServiceError::classify),
        }
    }

    fn domain(&self) -> &'static str {
        self.inner().map_or("git", ServiceError::domain)
    }

    fn violations(&self) -> Vec<FieldViolation> {
        match self {
            Self::Fields(violations) => violations.clone(),
            _ => self.inner().map(ServiceError::violations).unwrap_or_default(),
        }
    }

    fn details(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::BranchRenamed(name) => vec![("branch", String::from_utf8_lossy(name.as_bytes()).into_owned())],
            Self::PullEnd { end, .. } => vec![("field", end.name().to_owned())],
            _ => self.inner().map(ServiceError::details).unwrap_or_default(),
        }
    }

    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Store(error) => error.retry_after(),
            _ => self.inner().and_then(ServiceError::retry_after),
        }
    }
}

impl From<RpcError> for Status {
    fn from(failure: RpcError) -> Self {
        failure.log();
        to_status(&failure)
    }
}
