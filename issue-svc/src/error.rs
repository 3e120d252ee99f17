//! The errors of this service and their conversion to gRPC statuses.

use std::time::Duration;

use ferrite_db::DbError;
use ferrite_db::idempotency::IdempotencyError;
use ferrite_proto::error::{FieldViolation, Kind, ServiceError, first_violation, to_status};
use ferrite_rpc::auth::AuthError;
use tonic::Status;

#[derive(Debug, thiserror::Error)]
pub(crate) enum IssueError {
    #[error("{}", first_violation(.0))]
    Invalid(Vec<FieldViolation>),
    #[error("issue {number} does not exist")]
    NotFound { number: i64 },
    #[error("pull request does not exist")]
    PullNotFound,
    #[error("pull requests are disabled in this repository, or the token lacks the scope `repo:read`")]
    PullsDisabled,
    #[error("a pull request for these branches exists: #{number}")]
    PullExists { number: i64 },
    #[error("you cannot open pull requests with commits of this head repository")]
    HeadForbidden,
    #[error("pull request is already merged")]
    AlreadyMerged,
    #[error("pull request is closed")]
    PullClosed,
    #[error("pull request is a draft")]
    IsDraft,
    #[error("the head of the pull request has moved")]
    HeadMoved,
    #[error("the base of the pull request was changed")]
    BaseMoved,
    #[error("the settings of the repository do not allow this style of merging")]
    StyleNotAllowed,
    #[error("a merge of this pull request is scheduled already")]
    MergeScheduled,
    #[error("no merge of this pull request is scheduled")]
    MergeNotScheduled,
    #[error("{end} branch does not exist")]
    BranchNotFound {
        /// `base` or `head`.
        end: &'static str,
    },
    /// git-svc refused, with a reason that the caller can act on.
    #[error("{message}")]
    Git { kind: Kind, reason: &'static str, message: String },
    #[error("git storage is not available, try again later")]
    GitUnavailable,
    #[error("comment does not exist")]
    CommentNotFound,
    #[error("review does not exist")]
    ReviewNotFound,
    #[error("review is already submitted")]
    ReviewSubmitted,
    #[error("your pending review was changed at the same time, try again")]
    ReviewChanged,
    #[error("only reviews that approve or request changes can be dismissed")]
    NotDismissible,
    #[error("review is not dismissed")]
    NotDismissed,
    #[error("review limit reached: a pull request can have at most 5,000 reviews")]
    TooManyReviews,
    #[error("label does not exist")]
    LabelNotFound,
    #[error("milestone does not exist")]
    MilestoneNotFound,
    #[error("label `{name}` already exists")]
    LabelExists { name: String },
    #[error("label limit reached: {owner} can have at most 1,000 labels")]
    TooManyLabels {
        /// What the owner of the labels is.
        owner: &'static str,
    },
    #[error("milestone limit reached: a repository can have at most 10,000 milestones")]
    TooManyMilestones,
    #[error("limit reached: {limit} {what} per hour")]
    HourlyLimit {
        /// The counted things, in the plural.
        what: &'static str,
        limit: u64,
        retry_after: Duration,
    },
    /// The caller is not allowed to do this, or the check failed.
    #[error(transparent)]
    Auth(#[from] AuthError),
    #[error("issues are disabled in this repository")]
    Disabled,
    /// The repository was deleted after the grant was signed.
    #[error("repository does not exist")]
    RepositoryDeleted,
    /// The response to a repeated write is not available.
    #[error(transparent)]
    Idempotency(#[from] IdempotencyError),
    #[error("{}", .0.message())]
    Store(#[from] DbError),
}

impl IssueError {
    pub(crate) fn invalid(violations: impl IntoIterator<Item = Option<FieldViolation>>) -> Self {
        Self::Invalid(violations.into_iter().flatten().collect())
    }
}

impl From<FieldViolation> for IssueError {
    fn from(violation: FieldViolation) -> Self {
        Self::Invalid(vec![violation])
    }
}

impl ServiceError for IssueError {
    fn classify(&self) -> (Kind, &'static str) {
        match self {
            Self::Invalid(_) => (Kind::InvalidArgument, "INVALID_REQUEST"),
            Self::NotFound { .. } => (Kind::NotFound, "ISSUE_NOT_FOUND"),
            Self::PullNotFound => (Kind::NotFound, "PULL_NOT_FOUND"),
            Self::PullsDisabled => (Kind::NotFound, "PULLS_DISABLED"),
            Self::PullExists { .. } => (Kind::AlreadyExists, "PULL_EXISTS"),
            Self::HeadForbidden => (Kind::PermissionDenied, "HEAD_FORBIDDEN"),
            Self::AlreadyMerged => (Kind::FailedPrecondition, "ALREADY_MERGED"),
            Self::PullClosed => (Kind::FailedPrecondition, "PULL_CLOSED"),
            Self::IsDraft => (Kind::FailedPrecondition, "IS_DRAFT"),
            Self::HeadMoved => (Kind::Aborted, "HEAD_MOVED"),
            Self::BaseMoved => (Kind::Aborted, "BASE_MOVED"),
            Self::StyleNotAllowed => (Kind::FailedPrecondition, "STYLE_NOT_ALLOWED"),
            Self::MergeScheduled => (Kind::AlreadyExists, "MERGE_SCHEDULED"),
            Self::MergeNotScheduled => (Kind::NotFound, "MERGE_NOT_SCHEDULED"),
            Self::BranchNotFound { .. } => (Kind::NotFound, "BRANCH_NOT_FOUND"),
            Self::Git { kind, reason, .. } => (*kind, reason),
            Self::GitUnavailable => (Kind::Overloaded, "STORE_UNAVAILABLE"),
            Self::CommentNotFound => (Kind::NotFound, "COMMENT_NOT_FOUND"),
            Self::ReviewNotFound => (Kind::NotFound, "REVIEW_NOT_FOUND"),
            Self::ReviewSubmitted => (Kind::FailedPrecondition, "REVIEW_SUBMITTED"),
            Self::ReviewChanged => (Kind::Aborted, "REVIEW_CHANGED"),
            Self::NotDismissible => (Kind::FailedPrecondition, "NOT_DISMISSIBLE"),
            Self::NotDismissed => (Kind::FailedPrecondition, "NOT_DISMISSED"),
            Self::TooManyReviews => (Kind::FailedPrecondition, "TOO_MANY_REVIEWS"),
            Self::LabelNotFound => (Kind::NotFound, "LABEL_NOT_FOUND"),
            Self::MilestoneNotFound => (Kind::NotFound, "MILESTONE_NOT_FOUND"),
            Self::Disabled => (Kind::NotFound, "ISSUES_DISABLED"),
            Self::RepositoryDeleted => (Kind::NotFound, "REPOSITORY_NOT_FOUND"),
            Self::LabelExists { .. } => (Kind::AlreadyExists, "LABEL_ALREADY_EXISTS"),
            Self::TooManyLabels { .. } => (Kind::FailedPrecondition, "TOO_MANY_LABELS"),
            Self::TooManyMilestones => (Kind::FailedPrecondition, "TOO_MANY_MILESTONES"),
            Self::HourlyLimit { .. } => (Kind::RateLimited, "HOURLY_LIMIT_REACHED"),
            Self::Auth(error) => error.classify(),
            Self::Store(error) => error.classify(),
            Self::Idempotency(error) => error.classify(),
        }
    }

    fn domain(&self) -> &'static str {
        "issue"
    }

    fn violations(&self) -> Vec<FieldViolation> {
        match self {
            Self::Invalid(violations) => violations.clone(),
            Self::Idempotency(error) => error.violations(),
            Self::LabelExists { .. } => vec![FieldViolation::new("name", "taken", self.to_string())],
            _ => Vec::new(),
        }
    }

    fn details(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::PullExists { number } => vec![("number", number.to_string())],
            _ => Vec::new(),
        }
    }

    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::HourlyLimit { retry_after, .. } => Some(*retry_after),
            Self::Store(error) => error.retry_after(),
            _ => None,
        }
    }
}

impl From<IssueError> for Status {
    fn from(error: IssueError) -> Self {
        // The kit converts these, so that all services report them the same way.
        match error {
            IssueError::Idempotency(error) => return error.into(),
            IssueError::Auth(error) => return error.into(),
            _ => {}
        }
        if let IssueError::Store(cause) = &error {
            cause.log("a request");
        }
        to_status(&error)
    }
}
