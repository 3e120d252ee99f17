use std::time::Duration;

use ferrite_kit::auth::AuthError;
use ferrite_kit::db::DbError;
use ferrite_kit::idempotency::IdempotencyError;
use ferrite_proto::error::{FieldViolation, Kind, ServiceError, to_status};
use tonic::Status;

/// Everything that repo-svc can refuse to do.
#[derive(Debug, thiserror::Error)]
pub enum RepoError {
    /// Fields of the request break rules.
    #[error("{}", first(.0))]
    Invalid(Vec<FieldViolation>),
    /// No such user or organization.
    #[error("user does not exist")]
    UserNotFound,
    /// The user has no such token.
    #[error("token does not exist")]
    TokenNotFound,
    /// The owner has a repository of that name.
    #[error("repository `{owner}/{name}` already exists")]
    RepositoryExists {
        /// The owner's name.
        owner: String,
        /// The repository's name.
        name: String,
    },
    /// The account may own no more repositories.
    #[error("the account owns {limit} repositories, which is its limit")]
    RepositoryLimit {
        /// How many it may own.
        limit: u32,
    },
    /// A user or organization has that name.
    #[error("user `{0}` already exists")]
    UserExists(String),
    /// An account has that e-mail address.
    #[error("e-mail address is already in use")]
    EmailUsed,
    /// The user has a token of that name.
    #[error("token `{0}` already exists")]
    TokenExists(String),
    /// The tokens are somebody else's.
    #[error("tokens of another user")]
    NotYourTokens,
    /// Only the repository's owner may.
    #[error("only the owner may delete a repository")]
    OwnerRequired,
    /// Too many wrong passwords for one account.
    #[error("too many wrong passwords; try again later")]
    TooManyAttempts {
        /// When to try again.
        retry_after: Duration,
    },
    /// More passwords are being checked than there is room for.
    #[error("too many sign-ins at once")]
    Busy,
    /// The git store cannot be reached.
    #[error("the git store cannot be reached")]
    StoreUnavailable,
    /// The write was cut off half way; it is undone.
    #[error("the operation was interrupted")]
    Interrupted,
    /// git-svc refused the request for a reason that concerns the caller: its status is passed on as it is.
    #[error("{}", .0.message())]
    Refused(Box<Status>),
    /// git-svc failed.
    #[error("git store failure: {0}")]
    Storage(String),
    /// The password library failed.
    #[error("password hashing failed: {0}")]
    Hashing(String),
    /// Who is calling, or what the caller may not.
    #[error(transparent)]
    Auth(#[from] AuthError),
    /// A repeated write that cannot be answered.
    #[error(transparent)]
    Idempotency(#[from] IdempotencyError),
    /// The database failed.
    #[error("storage failure")]
    Store(#[from] DbError),
}

fn first(violations: &[FieldViolation]) -> String {
    violations.first().map_or_else(
        || "request is not valid".to_owned(),
        |violation| format!("`{}` {}", violation.field, violation.message),
    )
}

impl RepoError {
    /// A refusal of one field.
    pub(crate) fn field(field: &str, code: &'static str, message: &str) -> Self {
        Self::Invalid(vec![FieldViolation::new(field, code, message)])
    }
}

impl ServiceError for RepoError {
    fn kind(&self) -> Kind {
        match self {
            Self::Invalid(_) | Self::Refused(_) => Kind::InvalidArgument,
            Self::UserNotFound | Self::TokenNotFound => Kind::NotFound,
            Self::RepositoryExists { .. } | Self::UserExists(_) | Self::EmailUsed | Self::TokenExists(_) => {
                Kind::AlreadyExists
            }
            Self::RepositoryLimit { .. } => Kind::FailedPrecondition,
            Self::NotYourTokens | Self::OwnerRequired => Kind::PermissionDenied,
            Self::TooManyAttempts { .. } => Kind::RateLimited,
            Self::Busy | Self::StoreUnavailable => Kind::Overloaded,
            Self::Interrupted => Kind::Aborted,
            Self::Storage(_) | Self::Hashing(_) | Self::Store(_) => Kind::Internal,
            Self::Auth(error) => error.kind(),
            Self::Idempotency(error) => error.kind(),
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Invalid(_) | Self::Refused(_) => "INVALID_FIELDS",
            Self::UserNotFound => "USER_NOT_FOUND",
            Self::TokenNotFound => "TOKEN_NOT_FOUND",
            Self::RepositoryExists { .. } => "REPOSITORY_ALREADY_EXISTS",
            Self::RepositoryLimit { .. } => "REPOSITORY_LIMIT_REACHED",
            Self::UserExists(_) => "USER_ALREADY_EXISTS",
            Self::EmailUsed => "EMAIL_ALREADY_USED",
            Self::TokenExists(_) => "TOKEN_ALREADY_EXISTS",
            Self::NotYourTokens => "NOT_YOUR_TOKENS",
            Self::OwnerRequired => "OWNER_REQUIRED",
            Self::TooManyAttempts { .. } => "TOO_MANY_ATTEMPTS",
            Self::Busy => "BUSY",
            Self::StoreUnavailable => "STORE_UNAVAILABLE",
            Self::Interrupted => "INTERRUPTED",
            Self::Storage(_) | Self::Hashing(_) | Self::Store(_) => "INTERNAL",
            Self::Auth(error) => error.reason(),
            Self::Idempotency(error) => error.reason(),
        }
    }

    fn domain(&self) -> &'static str {
        "repo"
    }

    fn violations(&self) -> Vec<FieldViolation> {
        match self {
            Self::Invalid(violations) => violations.clone(),
            _ => Vec::new(),
        }
    }

    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::TooManyAttempts { retry_after } => Some(*retry_after),
            Self::Busy | Self::StoreUnavailable => Some(Duration::from_secs(1)),
            _ => None,
        }
    }
}

impl From<RepoError> for Status {
    fn from(error: RepoError) -> Self {
        match error {
            RepoError::Refused(status) => *status,
            // Theirs to tell: every service says these in the same words.
            RepoError::Auth(error) => error.into(),
            RepoError::Idempotency(error) => error.into(),
            error => {
                if error.kind() == Kind::Internal {
                    tracing::error!(cause = ?error, "request failed: {error}");
                }
                to_status(&error)
            }
        }
    }
}
