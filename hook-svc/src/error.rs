//! The errors of this service and their conversion to gRPC statuses.

use std::time::Duration;

use ferrite_core::sealing::SealError;
use ferrite_db::DbError;
use ferrite_db::idempotency::IdempotencyError;
use ferrite_proto::error::{FieldViolation, Kind, ServiceError, first_violation, to_status};
use ferrite_rpc::auth::AuthError;
use tonic::Status;

#[derive(Debug, thiserror::Error)]
pub(crate) enum HookError {
    #[error("{}", first_violation(.0))]
    Invalid(Vec<FieldViolation>),
    /// The repository was deleted after the grant was signed.
    #[error("repository does not exist")]
    RepositoryDeleted,
    #[error("webhook does not exist")]
    HookNotFound,
    #[error("delivery does not exist")]
    DeliveryNotFound,
    #[error("webhook limit reached: {limit}")]
    TooManyHooks { limit: i64 },
    /// Too many deliveries of the hook are waiting to queue more on request.
    #[error("too many pending deliveries: this webhook has more than {limit}")]
    TooManyWaiting { limit: i64 },
    #[error("limit reached: {limit} {what} per hour")]
    HourlyLimit {
        /// The counted things, in the plural.
        what: &'static str,
        limit: u64,
        retry_after: Duration,
    },
    #[error(transparent)]
    Auth(#[from] AuthError),
    /// A row has a value that this version does not know.
    #[error("hook {id} has an unknown value in column `{column}`")]
    Unreadable { id: i64, column: &'static str },
    #[error("cannot seal or open a value")]
    Sealed(#[from] SealError),
    /// The response to a repeated write is not available.
    #[error(transparent)]
    Idempotency(#[from] IdempotencyError),
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
        // The kit converts these, so that all services report them the same way.
        let error = match error {
            HookError::Idempotency(error) => return error.into(),
            HookError::Auth(error) => return error.into(),
            error => error,
        };
        if let HookError::Store(cause) = &error {
            cause.log("a request");
        } else if error.kind() == Kind::Internal {
            tracing::error!(error = &error as &dyn std::error::Error, "request failed");
        }
        to_status(&error)
    }
}
