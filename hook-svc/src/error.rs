//! The errors of this service, and their conversion to gRPC statuses.
//!
//! Not here: the tables from kinds to gRPC codes (proto) and from codes to HTTP (gateway).

use std::time::Duration;

use ferrite_core::sealing::SealError;
use ferrite_db::DbError;
use ferrite_db::idempotency::IdempotencyError;
use ferrite_proto::error::{FieldViolation, Kind, ServiceError, to_status};
use ferrite_rpc::auth::AuthError;
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
    /// The owner has no hook with this id.
    #[error("webhook does not exist")]
    HookNotFound,
    /// The hook has no delivery with this id.
    #[error("delivery does not exist")]
    DeliveryNotFound,
    /// The owner has as many hooks as it may have.
    #[error("there are {limit} webhooks already, which is the limit")]
    TooManyHooks {
        /// The limit.
        limit: i64,
    },
    /// So many deliveries of the hook wait that no old ones are sent again.
    #[error("more than {limit} deliveries of this webhook are waiting")]
    TooManyWaiting {
        /// The limit.
        limit: i64,
    },
    /// The caller has made as many hooks, or asked for as many deliveries, as it may within an hour.
    #[error("too many {what}: at most {limit} within an hour; try again later")]
    HourlyLimit {
        /// What is limited.
        what: &'static str,
        /// The limit.
        limit: u64,
        /// Time to wait before the next attempt.
        retry_after: Duration,
    },
    /// The caller may not do this.
    #[error(transparent)]
    Auth(#[from] AuthError),
    /// A row has a value that this version does not know.
    #[error("hook {id} cannot be read: its {column} is not known")]
    Unreadable { id: i64, column: &'static str },
    /// A sealed value cannot be made or opened.
    #[error("sealed value")]
    Sealed(#[from] SealError),
    /// A repeated write whose response cannot be given.
    #[error(transparent)]
    Idempotency(#[from] IdempotencyError),
    /// The database failed.
    #[error("{}", .0.message())]
    Store(#[from] DbError),
}

impl ServiceError for HookError {
    fn classify(&self) -> (Kind, &'static str) {
        match self {
            Self::Invalid(_) => (Kind::InvalidArgument, "INVALID_REQUEST"),
            Self::RepositoryDeleted => (Kind::NotFound, "REPOSITORY_NOT_FOUND"),
            Self::HookNotFound => (Kind::NotFound, "HOOK_NOT_FOUND"),
            Self::DeliveryNotFound => (Kind::NotFound, "DELIVERY_NOT_FOUND"),
            Self::TooManyHooks { .. } => (Kind::FailedPrecondition, "TOO_MANY_HOOKS"),
            Self::TooManyWaiting { .. } => (Kind::FailedPrecondition, "TOO_MANY_DELIVERIES_WAITING"),
            Self::HourlyLimit { .. } => (Kind::RateLimited, "HOURLY_LIMIT_REACHED"),
            Self::Unreadable { .. } | Self::Sealed(_) => (Kind::Internal, "INTERNAL"),
            Self::Store(error) => error.classify(),
            Self::Auth(error) => error.classify(),
            Self::Idempotency(error) => error.classify(),
        }
    }

    fn domain(&self) -> &'static str {
        "hook"
    }

    fn violations(&self) -> Vec<FieldViolation> {
        match self {
            Self::Invalid(violations) => violations.clone(),
            Self::Idempotency(error) => error.violations(),
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

impl From<HookError> for Status {
    fn from(error: HookError) -> Self {
        // Converted by the kit, so that all services report them alike.
        let error = match error {
            HookError::Idempotency(error) => return error.into(),
            HookError::Auth(error) => return error.into(),
            error => error,
        };
        if let HookError::Store(cause) = &error {
            cause.log("a request");
        } else if error.kind() == Kind::Internal {
            tracing::error!(error = &error as &dyn std::error::Error, "hook store failed");
        }
        to_status(&error)
    }
}
