//! The errors of this service, and their conversion to gRPC statuses.
//!
//! Not here: the tables from kinds to gRPC codes (proto) and from codes to HTTP (gateway).

use ferrite_kit::db::DbError;
use ferrite_kit::idempotency::IdempotencyError;
use ferrite_proto::error::{FieldViolation, Kind, ServiceError, to_status};
use tonic::Status;

/// Errors of this service, with a kind and a stable reason each.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HookError {
    /// Fields of the request break rules.
    #[error("request is not valid")]
    Invalid(Vec<FieldViolation>),
    /// The repository was deleted since the grant was signed.
    #[error("repository does not exist")]
    RepositoryDeleted,
    /// A row has a value that this version does not know.
    #[error("hook {id} cannot be read: its {column} is not known")]
    Unreadable { id: i64, column: &'static str },
    /// A repeated write whose response cannot be given.
    #[error(transparent)]
    Idempotency(#[from] IdempotencyError),
    /// The database failed.
    #[error("storage failure")]
    Store(#[from] DbError),
}

impl ServiceError for HookError {
    fn kind(&self) -> Kind {
        match self {
            Self::Invalid(_) => Kind::InvalidArgument,
            Self::RepositoryDeleted => Kind::NotFound,
            Self::Unreadable { .. } | Self::Store(_) => Kind::Internal,
            Self::Idempotency(error) => error.kind(),
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "INVALID_REQUEST",
            Self::RepositoryDeleted => "REPOSITORY_NOT_FOUND",
            Self::Unreadable { .. } | Self::Store(_) => "INTERNAL",
            Self::Idempotency(error) => error.reason(),
        }
    }

    fn domain(&self) -> &'static str {
        "hook"
    }

    fn violations(&self) -> Vec<FieldViolation> {
        match self {
            Self::Invalid(violations) => violations.clone(),
            Self::Idempotency(error) => error.violations(),
            Self::RepositoryDeleted | Self::Unreadable { .. } | Self::Store(_) => Vec::new(),
        }
    }
}

impl From<HookError> for Status {
    fn from(error: HookError) -> Self {
        // Converted by the kit, so that all services report them alike.
        if let HookError::Idempotency(error) = error {
            return error.into();
        }
        if error.kind() == Kind::Internal {
            tracing::error!(error = &error as &dyn std::error::Error, "hook store failed");
        }
        to_status(&error)
    }
}
